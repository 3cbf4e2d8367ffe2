"""The value of holding a cold component, while there is room. Source: MLoRA 6.1.1, Eq. 3.

S(m, t) = freq(m) exp(-lambda (t - t_last)) C_load(m) / M_size(m),    lambda .01 to .1 per hour
"""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

HOUR_MS: Final = 3_600_000.0
MIN_DECAY_PER_HOUR: Final = 0.01
MAX_DECAY_PER_HOUR: Final = 0.1


class ColdComponent(NamedTuple):
    """A cold component as Eq. 3 sees it."""

    id: str
    frequency: float  # requests, in any unit that is the same for all compared
    last_ms: float  # when it was last asked for
    load_ms: float
    bytes: int


def decay_per_hour(load: float) -> float:
    """Return lambda for the system's load [0, 1], its busy share: .01 per hour when idle, .1 when full.

    It is linear between, for which the paper gives no rule. A load outside counts as the nearer end.
    """
    return MIN_DECAY_PER_HOUR + (MAX_DECAY_PER_HOUR - MIN_DECAY_PER_HOUR) * min(1.0, max(0.0, load))


def score(component: ColdComponent, now_ms: float, per_hour: float) -> float:
    """Return Eq. 3: ms of loading saved per byte held, faded by the time since the last request."""
    age_hours = max(0.0, now_ms - component.last_ms) / HOUR_MS
    return component.frequency * math.exp(-per_hour * age_hours) * component.load_ms / component.bytes


def select_cold_components(
    components: Iterable[ColdComponent], room_bytes: float, now_ms: float, load: float
) -> tuple[str, ...]:
    """Return the ids of the cold components that fill a room best, the highest score first."""
    per_hour = decay_per_hour(load)
    held = []
    for each in sorted(components, key=lambda each: (-score(each, now_ms, per_hour), each.id)):
        if each.bytes <= room_bytes and each.frequency > 0:
            held.append(each.id)
            room_bytes -= each.bytes
    return tuple(held)

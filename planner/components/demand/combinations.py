"""Chooses the combinations to keep fused. Source: MLoRA 6.3.1: the 50 most frequent ones, 73.2 % of requests.

All others are fused when a request asks for them.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from planner.components.component import Component, base_of, fused_id, weights_of

MAX_STATIC: Final = 50


class StaticCombination(NamedTuple):
    """A combination that is kept fused."""

    id: str  # of the fused component
    requests: float  # for it, as counted
    bytes: int


def combination(base: str, adapters: Mapping[str, float]) -> str | None:
    """Return the fused id of a request's base and adapters with weights; None without adapters."""
    return fused_id(base, adapters) if adapters else None


def static_combinations(
    requests: Mapping[str, float],
    components: Mapping[str, Component],
    room_bytes: float,
    min_requests: float = 2.0,
    limit: int = MAX_STATIC,
) -> tuple[StaticCombination, ...]:
    """Return what to keep fused of the combinations asked for, by fused id; the most frequent first.

    A fused component is as large as its base. One that is asked for less than `min_requests` times is fused when asked
    for: it would fill a base's room for nothing. What does not fit into `room_bytes` is passed over.
    """
    chosen: list[StaticCombination] = []
    for id_ in sorted(requests, key=lambda each: (-requests[each], each)):
        base = components.get(base_of(id_) or "")
        if requests[id_] < min_requests or len(chosen) >= limit:
            break
        if base is not None and base.bytes <= room_bytes:
            chosen.append(StaticCombination(id_, requests[id_], base.bytes))
            room_bytes -= base.bytes
    return tuple(chosen)


def parts_of(id_: str) -> tuple[str, ...]:
    """Return the components that a fused one is made of, the base first; for any other, itself."""
    base = base_of(id_)
    return (id_,) if base is None else (base, *weights_of(id_))

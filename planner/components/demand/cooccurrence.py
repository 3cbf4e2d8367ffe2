"""Finds the adapters to load with a base. Source: MLoRA 6.1.2, Eq. 5.

    L_prefetch(b) = TopK { l : M_co(b, l) > theta max_l M_co(b, l) },    theta .15 to .3

The counts M_co halve with time, as the adapters in fashion change within days (MLoRA 1).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from planner.components.component import Component
from planner.components.demand.decay import DecayedCounts

MIN_THETA: Final = 0.15
MAX_THETA: Final = 0.30


class CoOccurrence:
    """Counts of adapters and controls in requests for each base. Not thread-safe: one owner."""

    def __init__(self, half_life_ms: float) -> None:
        self._bases: dict[str, DecayedCounts[str]] = {}
        self._half_life_ms = half_life_ms

    def on_request(self, base: str, others: Iterable[str], now_ms: float) -> None:
        """Count a request for a base with other components."""
        counts = self._bases.get(base)
        for other in set(others):
            if counts is None:
                counts = self._bases[base] = DecayedCounts(self._half_life_ms)
            counts.add(other, now_ms)

    def counts(self, base: str, now_ms: float) -> dict[str, float]:
        """Return M_co of a base by the other component."""
        counts = self._bases.get(base)
        return counts.values(now_ms) if counts else {}

    def snapshot(self) -> dict[str, dict[str, tuple[float, float]]]:
        """Return the state as plain values, for `restore`."""
        return {base: counts.snapshot() for base, counts in self._bases.items()}

    def restore(self, snapshot: Mapping[str, Mapping[str, tuple[float, float]]]) -> None:
        """Replace the state by that of a snapshot."""
        self._bases = {base: DecayedCounts(self._half_life_ms) for base in snapshot}
        for base, counts in snapshot.items():
            self._bases[base].restore(counts)


def theta(free_share: float) -> float:
    """Return the threshold for a free share [0, 1] of the memory that adapters may fill: .3 if none is, .15 if all is.

    It is linear between, for which the paper gives no rule.
    """
    return MAX_THETA - (MAX_THETA - MIN_THETA) * min(1.0, max(0.0, free_share))


def prefetch_set(counts: Mapping[str, float], threshold: float, limit: int) -> tuple[str, ...]:
    """Return at most `limit` components whose count exceeds `threshold` of the largest, the most frequent first."""
    least = threshold * max(counts.values(), default=0.0)
    ranked = sorted((each for each in counts if counts[each] > least), key=lambda each: (-counts[each], each))
    return tuple(ranked[: max(0, limit)])


def fitting(ids: Iterable[str], components: Mapping[str, Component], room_bytes: float) -> tuple[str, ...]:
    """Return, in their order, the known components that fit into a room together; what does not fit is passed over."""
    chosen = []
    for each in ids:
        if each in components and components[each].bytes <= room_bytes:
            chosen.append(each)
            room_bytes -= components[each].bytes
    return tuple(chosen)

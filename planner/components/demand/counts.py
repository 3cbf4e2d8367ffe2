"""The demand for components: decayed counts of requests for each component, pair and combination.

`ComponentDemand` takes in every request and returns the input of `placement.py`. Its state is JSON values, so that a
restarted planner continues with it.
"""

from collections.abc import Mapping
from typing import Any

from planner.components.component import Component, ComponentRequest, Kind, kind_of
from planner.components.demand.combinations import StaticCombination, combination, static_combinations
from planner.components.demand.cooccurrence import CoOccurrence, prefetch_set, theta
from planner.components.demand.decay import DecayedCounts
from planner.components.demand.popularity import Popularity, classes

HALF_LIFE_MS = 6 * 3_600_000.0  # of counts: dominant models lose most of their use within days (MLoRA 1)


class ComponentDemand:
    """Decayed counts of requests by component, pair and combination. Not thread-safe: one owner."""

    def __init__(self, half_life_ms: float = HALF_LIFE_MS) -> None:
        self._requests: DecayedCounts[str] = DecayedCounts(half_life_ms)
        self._fused: DecayedCounts[str] = DecayedCounts(half_life_ms)
        self._pairs = CoOccurrence(half_life_ms)

    def on_request(self, request: ComponentRequest, now_ms: float) -> None:
        """Count a request."""
        for each in request.ids:
            self._requests.add(each, now_ms)
        self._pairs.on_request(request.base, request.ids[1:], now_ms)
        if fused := combination(request.base, request.adapters):
            self._fused.add(fused, now_ms)

    def requests(self, now_ms: float) -> dict[str, float]:
        """Return the decayed number of requests for each component."""
        return self._requests.values(now_ms)

    def rate_per_s(self, id_: str, now_ms: float) -> float:
        """Return how often per second a component is asked for."""
        return 1000.0 * self._requests.rate_per_ms(id_, now_ms)

    def last_ms(self, id_: str) -> float | None:
        """Return when a component was last requested; None if never."""
        return self._requests.last_ms(id_)

    def popularity(self, now_ms: float) -> dict[str, Popularity]:
        """Return the class of each component that was ever asked for."""
        return classes(self.requests(now_ms))

    def companions(self, base: str, now_ms: float, free_share: float, limit: int) -> tuple[str, ...]:
        """Return what is loaded with a base (Eq. 5); `free_share` [0, 1]: of the memory that it may fill."""
        return prefetch_set(self._pairs.counts(base, now_ms), theta(free_share), limit)

    def pairs(self, base: str, now_ms: float) -> dict[str, float]:
        """Return how often each adapter and control was asked for with a base."""
        return self._pairs.counts(base, now_ms)

    def static(
        self, components: Mapping[str, Component], room_bytes: float, now_ms: float
    ) -> tuple[StaticCombination, ...]:
        """Return the combinations to keep fused in a room."""
        return static_combinations(self._fused.values(now_ms), components, room_bytes)

    def bases(self, now_ms: float) -> dict[str, float]:
        """Return the decayed number of requests for each base: the demand of Eq. 2."""
        return {each: count for each, count in self.requests(now_ms).items() if kind_of(each) is Kind.BASE}

    def snapshot(self) -> dict[str, Any]:
        """Return the state as JSON values, for `restore`."""
        return {
            "requests": self._requests.snapshot(),
            "fused": self._fused.snapshot(),
            "pairs": self._pairs.snapshot(),
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Replace the state by that of a snapshot. Raises KeyError for one that lacks a part."""
        self._requests.restore(snapshot["requests"])
        self._fused.restore(snapshot["fused"])
        self._pairs.restore(snapshot["pairs"])

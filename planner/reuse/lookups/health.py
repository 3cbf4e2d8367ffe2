"""The results of recent lookups, for a worker's heartbeat."""

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

from planner.reuse.lookups.breaker import Breaker, Call, unanswered_share
from schemas.messages import ReuseHealth

WINDOW: Final = 100  # calls that are looked back on
CLOSED, FAILING = "closed", "failing"  # a breaker, as heartbeats call it


class CallWindow:
    """The last calls; those before the breaker opened or closed say nothing any more.

    Nor do those of jobs before five probes in a row: a fleet that left reuse while a few of a worker's lookups had
    failed, too few for its breaker, would never see that the stores are well again.
    """

    def __init__(self) -> None:
        self._calls: deque[Call] = deque(maxlen=WINDOW)
        self._was_open = False
        self._probes = 0  # in a row

    def add(self, call: Call, after: Breaker, *, is_probe: bool = False) -> None:
        """Add a lookup or a probe. `after`: the breaker that has counted it."""
        self._probes = self._probes + 1 if is_probe else 0
        probes_only = not after.is_open and self._probes >= after.rule.good_probes
        has_opened = after.is_open and not self._was_open
        has_closed = not after.is_open and self._was_open
        self._calls.append(call)
        keep = (
            after.rule.max_failures if has_opened else after.rule.good_probes if has_closed or probes_only else WINDOW
        )
        while len(self._calls) > keep:
            self._calls.popleft()
        self._was_open = after.is_open

    def report(self, hits: int, misses: dict[str, int]) -> ReuseHealth:
        """Return what a heartbeat says; `hits`, `misses`: since start."""
        calls = tuple(self._calls)
        times_ms = sorted(call.costs_ms for call in calls)
        return ReuseHealth(
            breaker=FAILING if self._was_open else CLOSED,
            lookups=len(calls),
            unanswered=unanswered_share(calls),
            p50_ms=percentile(times_ms, 0.5),
            p95_ms=percentile(times_ms, 0.95),
            hits=hits,
            misses=misses,
        )


def percentile(sorted_ms: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile of rising times; 0 of none."""
    return sorted_ms[min(len(sorted_ms) - 1, math.ceil(share * len(sorted_ms)) - 1)] if sorted_ms else 0.0

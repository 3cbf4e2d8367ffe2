"""The mean number of requests in flight, by tenant and by the variant that they name.

In flight are requests that were classified and have no result, waiting or running. A request that was rejected for lack
of workers counts for its run time: it is demand that the present workers cannot show. Source: OctoAI, "Automatic
scaling", whose signal is "the number of in-flight requests".
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from typing import Final

WINDOW_MS: Final = 10_000  # that means are taken over, as long as a period of scaling
SAMPLE_MS: Final = 250.0  # between two points of the integral
MAX_OPEN: Final = 200_000  # requests remembered
MAX_EARLY: Final = 20_000  # results remembered of requests that were not read yet: two topics have no common order

Means = dict[str, dict[str, float]]
"""tenant -> variant that the requests name, "" of those that any level serves -> mean number in flight."""


@dataclass(slots=True)
class _Integral:
    """The number in flight of one kind of request, and its integral over time."""

    count: int = 0
    at_ms: float = 0.0
    area: float = 0.0  # requests x ms until `at_ms`
    points: deque[tuple[float, float]] = field(default_factory=deque)  # (ms, area), the oldest first

    def advance(self, now_ms: float, window_ms: float) -> None:
        if now_ms > self.at_ms:
            self.area += self.count * (now_ms - self.at_ms)
            self.at_ms = now_ms
        if not self.points or self.at_ms - self.points[-1][0] >= SAMPLE_MS:
            self.points.append((self.at_ms, self.area))
        while len(self.points) > 2 and self.points[1][0] <= self.at_ms - window_ms:
            self.points.popleft()

    def mean(self, window_ms: float) -> float:
        """The mean over the window; before the first request none was in flight."""
        from_ms, area = self.points[0]
        since_ms = max(from_ms, self.at_ms - window_ms)
        span_ms = self.points[1][0] - from_ms if len(self.points) > 1 else 0.0
        if since_ms > from_ms and span_ms > 0:  # the window begins between two points
            area += (self.points[1][1] - area) * (since_ms - from_ms) / span_ms
        return max(0.0, self.area - area) / window_ms


class InFlight:
    """The requests in flight. Fed with events whose times may repeat or step back a little. One owner, no thread."""

    def __init__(self, window_ms: float = WINDOW_MS) -> None:
        self._window_ms = window_ms
        self.clear()

    def clear(self) -> None:
        """Forget all: a reader begins again with recent requests."""
        self._open: dict[str | int, tuple[str, str]] = {}  # request -> tenant, variant
        self._early: dict[str | int, None] = {}
        self._kinds: dict[tuple[str, str], _Integral] = {}
        self._leaving: list[tuple[float, str | int]] = []  # when rejected requests stop counting

    def begin(self, request: str | int, tenant: str, variant: str, at_ms: float) -> bool:
        """A request was admitted to the pipeline; `variant`: the only one that will do, "": any level.

        Return whether it is in flight from now on: it was not known, and has no result.
        """
        if request in self._open:
            return False
        if request in self._early:
            del self._early[request]
            return False
        if len(self._open) >= MAX_OPEN:
            self._close(next(iter(self._open)), at_ms)
        self._open[request] = tenant, variant
        kind = self._kinds.get((tenant, variant))
        if kind is None:
            kind = self._kinds[tenant, variant] = _Integral(at_ms=at_ms)
        kind.advance(at_ms, self._window_ms)
        kind.count += 1
        return True

    def end(self, request: str | int, at_ms: float, counts_on_ms: float = 0.0) -> None:
        """Take in a result; `counts_on_ms`: how long a rejected request still counts."""
        if request not in self._open:
            self._early[request] = None
            if len(self._early) > MAX_EARLY:
                del self._early[next(iter(self._early))]
        elif counts_on_ms > 0:
            heapq.heappush(self._leaving, (at_ms + counts_on_ms, request))
        else:
            self._close(request, at_ms)

    def count(self) -> int:
        """Return the number of requests without a result now, without rejected ones."""
        return max(0, len(self._open) - len(self._leaving))

    def means(self, now_ms: float) -> Means:
        """Return the mean numbers in flight in the window before now; kinds with none are left out."""
        self._advance(now_ms)
        found: Means = {}
        for (tenant, variant), kind in sorted(self._kinds.items()):
            if (mean := kind.mean(self._window_ms)) > 0:
                found.setdefault(tenant, {})[variant] = mean
        return found

    def asked(self, now_ms: float) -> frozenset[str]:
        """Return the variants that requests in flight name now; "": any level."""
        self._advance(now_ms)
        return frozenset(variant for (_, variant), kind in self._kinds.items() if kind.count)

    def _advance(self, now_ms: float) -> None:
        while self._leaving and self._leaving[0][0] <= now_ms:
            at_ms, request = heapq.heappop(self._leaving)
            self._close(request, at_ms)
        for kind in self._kinds.values():
            kind.advance(now_ms, self._window_ms)
        idle = [key for key, kind in self._kinds.items() if not kind.count and kind.mean(self._window_ms) <= 0]
        for key in idle:
            del self._kinds[key]

    def _close(self, request: str | int, at_ms: float) -> None:
        if (key := self._open.pop(request, None)) is not None:
            kind = self._kinds[key]
            kind.advance(at_ms, self._window_ms)
            kind.count -= 1

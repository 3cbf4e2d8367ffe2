"""The time from a draft's image to its request's job on the next level, as results show it.

A result's latency less the waits and calls of its stages is the time of topics, stores, the judge and the ledger. That
of an escalated request is longer than that of one whose draft was kept by what lies between the two levels: the draft
is stored and read, and its request is sent on as a job. The judge looks at one image of each, so that its time cancels
out, and so does what clients' clocks are wrong by. Each is compared with the kept one that was asked for at nearly the
same time, as topics take longer under load; a hop is the median of the differences.
"""

from bisect import bisect
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Final

from schemas.messages import Stage

RESULTS: Final = 200  # of each kind that are looked back on
ENOUGH: Final = 20  # of each kind: the median of so many is known to about half of what the middle half spans


class Hops:
    """The times beside waits and calls of the last requests; one thread may add while another reads."""

    def __init__(self) -> None:
        # (when it was asked for, time beside waits and calls) in ms: of kept drafts, and of escalated ones
        self._beside = tuple(deque[tuple[int, float]](maxlen=RESULTS) for _ in range(2))

    def clear(self) -> None:
        """A reader begins again with the window."""
        for each in self._beside:
            each.clear()

    def add(self, path: Sequence[Stage], created_ms: int, latency_ms: float) -> None:
        """Add a completed request whose first image was judged; others, and paths of three stages, say nothing."""
        if 1 <= len(path) <= len(self._beside) and path[0].confidence is not None:
            served_ms = sum(stage.queue_ms + stage.generate_ms for stage in path)
            self._beside[len(path) - 1].append((created_ms, latency_ms - served_ms))

    def observed_ms(self) -> float | None:
        """Return the hop in whole ms, 0 or more; None: too few results to know, and plans count 0."""
        kept, escalated = (sorted(each) for each in self._beside)
        if min(len(kept), len(escalated)) < ENOUGH:
            return None
        return max(0.0, float(round(median(ms - _nearest(kept, at_ms) for at_ms, ms in escalated))))


def _nearest(kept: Sequence[tuple[int, float]], at_ms: int) -> float:
    """The value of those, in order of time, that is nearest in time."""
    after = bisect(kept, (at_ms, 0.0))
    return min(kept[max(0, after - 1) : after + 1], key=lambda each: abs(each[0] - at_ms))[1]

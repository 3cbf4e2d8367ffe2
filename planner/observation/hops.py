"""The time from a draft's image to its request's job on the next level, as results show it.

A result's latency less the waits and calls of its stages is the time of topics, stores, the judge and the ledger. That
of an escalated request is longer than that of one whose draft was kept by what lies between the two levels: the draft
is stored and read, and its request is sent on as a job. The judge looks at one image of each, so that its time cancels
out, and so does what clients' clocks are wrong by. A hop is the difference of both medians.
"""

from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import Final

from planner.observation.observation import Observation
from schemas.messages import Stage

RESULTS: Final = 200  # of each kind that are looked back on
ENOUGH: Final = 20  # of each kind: medians of so many are known to a third of a quartile


class Hops:
    """The times beside waits and calls of the last requests; one thread may add while another reads."""

    def __init__(self) -> None:
        self._beside = deque[float](maxlen=RESULTS), deque[float](maxlen=RESULTS)  # ms: of kept drafts, of escalated

    def clear(self) -> None:
        """A reader begins again with the window."""
        for each in self._beside:
            each.clear()

    def add(self, path: Sequence[Stage], latency_ms: float) -> None:
        """Add a completed request whose first image was judged; others, and paths of three stages, say nothing."""
        if 1 <= len(path) <= len(self._beside) and path[0].confidence is not None:
            served_ms = sum(stage.queue_ms + stage.generate_ms for stage in path)
            self._beside[len(path) - 1].append(latency_ms - served_ms)

    def observed_ms(self) -> float | None:
        """Return the hop in whole ms, 0 or more; None: too few results to know."""
        kept, escalated = (list(each) for each in self._beside)
        enough = min(len(kept), len(escalated)) >= ENOUGH
        return max(0.0, float(round(median(escalated) - median(kept)))) if enough else None


def unknown_hop(seen: Observation) -> str:
    """Say in a plan's reason what its latencies leave out; "" where it is known, or where no latency is asked for."""
    is_told = seen.hop_ms is None and seen.slo_ms > 0
    return "; the time between two levels is unknown until requests are escalated, and counts as 0" if is_told else ""

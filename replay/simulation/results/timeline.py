"""Counts of a run in a few hundred intervals of time. A request counts in the one in which it arrived."""

from collections import Counter

import numpy as np

MAX_INTERVALS = 300  # intervals
WIDTHS_S = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400,
    172_800,
)  # fmt: skip
SAMPLE_MS = 1000.0  # the longest between two looks at the queues


def width_s(seconds: float) -> float:
    """Width of an interval in s, round, so that a trace this long has 100 to 300; fewer only below 10 s."""
    return next((width for width in WIDTHS_S if seconds < MAX_INTERVALS * width), WIDTHS_S[-1])


class Timeline:
    """Counts by interval; fed as a run goes."""

    def __init__(self, arrivals_ms: np.ndarray, end_ms: float = 0.0) -> None:
        """`end_ms`: to which it reaches even if no request comes any more, so that runs of other draws are alike."""
        last_ms = max(end_ms, float(arrivals_ms[-1]))
        self.width_ms = 1000 * width_s(last_ms / 1000)
        self.count = int(last_ms // self.width_ms) + 1
        self.arrived = np.bincount((arrivals_ms // self.width_ms).astype(np.int64), minlength=self.count)
        self.in_time = [0] * self.count
        self.levels: list[Counter[str]] = [Counter() for _ in range(self.count)]  # of the answers
        self.quality_sum, self.quality_count = [0.0] * self.count, [0] * self.count
        self.queued_ms, self.looks = [0.0] * self.count, [0] * self.count

    def end_with(self, arrivals_ms: np.ndarray) -> None:
        """Leave out what comes after these, the first arrivals."""
        self.count = int(float(arrivals_ms[-1]) // self.width_ms) + 1
        self.arrived = np.bincount((arrivals_ms // self.width_ms).astype(np.int64))
        for each in (self.in_time, self.levels, self.quality_sum, self.quality_count, self.queued_ms, self.looks):
            del each[self.count :]

    @property
    def sample_ms(self) -> float:
        """Between two looks at the queues."""
        return min(SAMPLE_MS, self.width_ms)

    def completed(self, arrived_ms: float, now_ms: float, level: str, is_late: bool, quality: float | None) -> None:  # noqa: ARG002
        """A request that arrived then is answered now."""
        at = int(arrived_ms // self.width_ms)
        self.in_time[at] += not is_late
        self.levels[at][level] += 1
        if quality is not None:
            self.quality_sum[at] += quality
            self.quality_count[at] += 1

    def skipped(self, since_ms: float, until_ms: float) -> None:
        """Sample a time in which no work waited."""
        first, last = max(0, int(since_ms // self.width_ms)), min(self.count - 1, int(until_ms // self.width_ms))
        for at in range(first, last + 1):
            own_ms = min(until_ms, (at + 1) * self.width_ms) - max(since_ms, at * self.width_ms)
            self.looks[at] += round(own_ms / self.sample_ms)

    def sampled(self, now_ms: float, backlog_ms: float) -> None:
        """Sample the work that waits per worker; samples before 0 and after the last arrival are not drawn."""
        at = int(now_ms // self.width_ms)
        if 0 <= at < self.count:
            self.queued_ms[at] += backlog_ms
            self.looks[at] += 1

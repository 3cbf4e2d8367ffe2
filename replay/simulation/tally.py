"""What a run comes to, counted as it goes: nothing is kept of a request that has ended."""

import math
from collections import Counter
from dataclasses import dataclass, field

from replay.simulation.job import Job
from schemas.messages import Status

FINENESS = 1.002  # a latency is known to this ratio
_SCALE = 1 / math.log(FINENESS)
SPAN_MS = 20_000  # over which the mixture of levels is judged as one. Source: facts/peers.md 3.5

Judges = tuple[str, str, str] | None  # light, heavy, discriminator of the cascade that chose them; None: nobody chose
Span = dict[Judges, Counter[str]]  # by what chose them, level -> answers of a stretch of time


@dataclass(slots=True)
class Latencies:
    """A histogram in logarithmic bins, from 1 ms on."""

    counts: Counter[int] = field(default_factory=Counter)
    sum_ms: float = 0.0

    def add(self, ms: float) -> None:
        self.sum_ms += ms
        self.counts[int(math.log(ms) * _SCALE) if ms > 1 else 0] += 1

    def mean(self) -> float | None:
        """In ms; None of none."""
        return self.sum_ms / self.counts.total() if self.counts else None

    def quantile(self, share: float) -> float | None:
        """In ms; None of none."""
        rank, below = share * self.counts.total(), 0
        for place in sorted(self.counts):
            below += self.counts[place]
            if below >= rank:
                return math.exp((place + 0.5) / _SCALE)
        return None


class Tally:
    """Counts of one run. `late` are completed after the SLO; with what never completed they are the violations."""

    def __init__(self, slo_ms: float) -> None:
        self._slo_ms = slo_ms
        self.requests = 0
        self.ends: Counter[Status] = Counter()
        self.late = 0
        self.levels: Counter[str] = Counter()  # of the pictures that were answers
        self.escalated = 0  # painted again
        self.retried = 0  # jobs that a dead worker had in hand
        self.latencies = Latencies()
        self.quality_sum, self.quality_count = 0.0, 0
        self.quality_sum_in_time, self.quality_count_in_time = 0.0, 0
        self.spans: list[Span] = []  # that are over and had answers
        self._span: Span = {}
        self._span_ends_ms = float(SPAN_MS)

    @property
    def open(self) -> int:
        """Requests that have not ended."""
        return self.requests - self.ends.total()

    @property
    def violations(self) -> int:
        """Late, shed, expired, failed; and still open when the run was given up."""
        return self.requests - self.ends[Status.COMPLETED] + self.late

    def completed(self, job: Job, level: str, step: int, judges: Judges, now_ms: float) -> None:
        """The picture of a level is the answer."""
        self.ends[Status.COMPLETED] += 1
        self.levels[level] += 1
        latency_ms = now_ms - job.arrived_ms
        self.latencies.add(latency_ms)
        is_late = latency_ms > self._slo_ms
        self.late += is_late
        quality = job.draws.quality(level, step)
        if quality is not None:
            self.quality_sum += quality[job.row]
            self.quality_count += 1
            if not is_late:
                self.quality_sum_in_time += quality[job.row]
                self.quality_count_in_time += 1
        if now_ms >= self._span_ends_ms:
            self.end_span()
            self._span_ends_ms = (now_ms // SPAN_MS + 1) * SPAN_MS
        if judges not in self._span:
            self._span[judges] = Counter()
        self._span[judges][level] += 1

    def ended(self, status: Status) -> None:
        """Any other end."""
        self.ends[status] += 1

    def end_span(self) -> None:
        """What came in the stretch of time until now is judged as one mixture."""
        if self._span:
            self.spans.append(self._span)
            self._span = {}

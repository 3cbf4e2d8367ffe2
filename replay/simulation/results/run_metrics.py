"""Counts the results of a run as it goes, and keeps nothing of a request that has ended."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from planner.serving.decisions import QUOTA, UNHONOURED
from replay.simulation.job import Job
from replay.simulation.results.timeline import Timeline
from schemas.messages import Status

FINENESS = 1.002  # a latency is known to this ratio
_SCALE = 1 / math.log(FINENESS)
SPAN_MS = 20_000  # over which the mixture of levels is judged as one. As in SOURCES.md 5

NO_PARTS: Mapping[str, int] = {}
Judges = tuple[str, str, str] | None  # light, heavy, discriminator of the cascade; None without a cascade
KEPT, AGAIN, REJECTED = "kept", "again", "rejected"
Answer = tuple[str, str]
"""Level, and how its image became the answer.

KEPT: it was good enough, or not judged. AGAIN: it replaced a rejected draft. REJECTED: it was rejected, but kept
because the next level would be too late.
"""
Span = dict[Judges, Counter[Answer]]  # by what chose them, the answers of a stretch of time


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


@dataclass(slots=True)
class PartMetrics:
    """Counts of the requests of one tier, or of one tenant."""

    requests: int
    ends: Counter[Status] = field(default_factory=Counter)
    late: int = 0
    unhonoured: int = 0  # of the REJECTED
    latencies: Latencies = field(default_factory=Latencies)

    @property
    def ended(self) -> int:
        """Number of requests that have ended."""
        return self.ends.total()

    @property
    def violations(self) -> int:
        """As a run's."""
        return self.requests - self.ends[Status.COMPLETED] + self.late


class RunMetrics:
    """Counts of one run. `late` are completed after the SLO, or their own deadline; with what never completed they are
    the violations.
    """

    def __init__(
        self,
        slo_ms: float,
        timeline: Timeline,
        tiers: Mapping[str, int] = NO_PARTS,
        tenants: Mapping[str, int] = NO_PARTS,
    ) -> None:
        """`tiers`, `tenants`: their requests in the trace; {}: they are not counted apart. Tenants only with tiers."""
        self._slo_ms, self.timeline = slo_ms, timeline
        self.tiers = {tier: PartMetrics(requests) for tier, requests in tiers.items()}
        self.tenants = {tenant: PartMetrics(requests) for tenant, requests in tenants.items()}
        self.over_quota: Counter[str] = Counter()  # of the REJECTED, by tenant
        self.unhonoured = 0  # of the REJECTED: no level does what they ask for
        self.on_end: list[Callable[[Job], object]] = []  # called where tiers are counted
        self.on_result: Callable[[Job, Status, str], object] = _ignore  # called at every end, with the rejection's code
        self.requests = 0
        self.ends: Counter[Status] = Counter()
        self.late = 0
        self.levels: Counter[str] = Counter()  # of the images that were answers
        self.escalated = 0  # generated again
        self.rejected = 0  # answers that were drafts not good enough, as there was no time for better
        self.retried = 0  # jobs that a dead worker had in hand
        self.under_way = self.under_way_violations = 0  # requests that arrived while the fleet changed its strategy
        self.latencies = Latencies()
        self.quality_sum, self.quality_count = 0.0, 0
        self.quality_sum_in_time, self.quality_count_in_time = 0.0, 0
        self.spans: list[Span] = []  # that are over and had answers
        self.span_ends_ms: list[float] = []  # of each
        self.spans_in_time: list[Span] = []  # the same of answers within the SLO; shared where all were
        self._span: Span = {}
        self._late_span: Span = {}
        self._span_ends_ms = float(SPAN_MS)

    @property
    def open(self) -> int:
        """Requests that have not ended."""
        return self.requests - self.ends.total()

    @property
    def violations(self) -> int:
        """Late, shed, unhonoured, expired, failed; and still open when the run was stopped."""
        return self.requests - self.ends[Status.COMPLETED] + self.late

    def completed(self, job: Job, level: str, step: int, judges: Judges, now_ms: float) -> None:
        """The image of a level is the answer."""
        self.ends[Status.COMPLETED] += 1
        self.on_result(job, Status.COMPLETED, "")
        self.levels[level] += 1
        latency_ms = now_ms - job.arrived_ms
        self.latencies.add(latency_ms)
        is_late = latency_ms > (self._slo_ms if job.limit_ms is None else job.limit_ms)
        self.late += is_late
        if job.is_under_way:
            self.under_way += 1
            self.under_way_violations += is_late
        if self.tiers:
            for part in self._parts(job):
                part.latencies.add(latency_ms)
                part.late += is_late
            self._end_in_parts(Status.COMPLETED, job)
        quality = job.quality_of(level, step)
        self.timeline.completed(job.arrived_ms, now_ms, level, is_late, quality)
        if quality is not None:
            self.quality_sum += quality
            self.quality_count += 1
            if not is_late:
                self.quality_sum_in_time += quality
                self.quality_count_in_time += 1
        if now_ms >= self._span_ends_ms:
            self.end_span()
            self._span_ends_ms = (now_ms // SPAN_MS + 1) * SPAN_MS
        how = KEPT
        if job.draft is not None and level == job.level:
            how = AGAIN
        elif job.draft is not None or job.is_rejected:
            how, self.rejected = REJECTED, self.rejected + 1
        answer = level, how
        if judges not in self._span:
            self._span[judges] = Counter()
        self._span[judges][answer] += 1
        if is_late:
            self._late_span.setdefault(judges, Counter())[answer] += 1

    def ended(self, status: Status, job: Job, code: str = "") -> None:
        """Count an end other than a completion. `code`: why it was rejected."""
        self.ends[status] += 1
        self.on_result(job, status, code)
        if job.is_under_way:
            self.under_way += 1
            self.under_way_violations += 1
        if code == QUOTA:
            self.over_quota[job.tenant] += 1
        self.unhonoured += code == UNHONOURED
        if self.tiers:
            for part in self._parts(job):
                part.unhonoured += code == UNHONOURED
            self._end_in_parts(status, job)

    def _parts(self, job: Job) -> list[PartMetrics]:
        return [self.tiers[job.tier], *([self.tenants[job.tenant]] if self.tenants else ())]

    def _end_in_parts(self, status: Status, job: Job) -> None:
        for part in self._parts(job):
            part.ends[status] += 1
        for listener in self.on_end:
            listener(job)

    def end_span(self) -> None:
        """End a stretch of time, whose answers are judged as one mixture."""
        if self._span:
            self.spans.append(self._span)
            self.span_ends_ms.append(self._span_ends_ms)
            in_time = _without(self._span, self._late_span)
            if in_time:
                self.spans_in_time.append(in_time)
            self._span, self._late_span = {}, {}


def _ignore(_job: Job, _status: Status, _code: str) -> None:
    """Do nothing."""


def _without(span: Span, late: Span) -> Span:
    """Return the answers of a span that were in time."""
    if not late:
        return span
    left = {judges: answers - late.get(judges, Counter()) for judges, answers in span.items()}
    return {judges: answers for judges, answers in left.items() if answers}

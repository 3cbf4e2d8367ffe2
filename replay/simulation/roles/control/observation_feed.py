"""Feeds the builder of the planner's `Observation` from the simulated pipeline's arrays and events."""

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from planner.catalog.entries import run_ms
from planner.control.planning import PlanRequest
from planner.control.proposal import terms_of
from planner.control.shedding import ORDINARY
from planner.observation.arrivals import Prompts
from planner.observation.builder import ObservationBuilder
from planner.observation.observation import COUNTS_S, PROMPTS, Observation
from planner.observation.workers import ReceivedHeartbeat
from planner.policies import named
from planner.reuse.steps import Reuse
from planner.serving.decisions import LACKED_CAPACITY, QUOTA
from planner.serving.ending.outcomes import as_score
from planner.serving.routing.composing import Fits
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Draws, Job
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.roles.workers.group import Group
from replay.simulation.setup import Setup
from schemas.messages import Plan, Status

T = TypeVar("T")

CHUNKS = 2  # of requests drawn at once, which are longer than the histogram


class TraceArrivals:
    """The arrivals of a run as an `ArrivalLog`: its trace up to now, without a record of each request."""

    def __init__(
        self, events: EventQueue, setup: Setup, tally: RunMetrics, arrivals_ms: np.ndarray, is_batch: np.ndarray | None
    ) -> None:
        """`is_batch`: bool per request: whether it is seen only after the batch gate; None if no request is."""
        self._events, self._setup, self._tally, self._arrivals_ms = events, setup, tally, arrivals_ms
        self._drawn: deque[tuple[int, Draws]] = deque(maxlen=CHUNKS)  # with the number of their first request
        self._entered: deque[float] | None = deque() if setup.timing.hops.arrive else None  # arrivals, once classified
        self._n_entered = 0
        self._is_seen = None if is_batch is None else ~is_batch
        self._tiers: deque[str] = deque(maxlen=PROMPTS)

    def on_sampled(self, first: int, draws: Draws) -> None:
        """The requests from this number on are these; they have not arrived yet."""
        self._drawn.append((first, draws))

    def before(self, action: Callable[[Job], None]) -> Callable[[Job], None]:
        """The action upon a request that was classified: where that takes time, it is seen only then."""
        entered = self._entered
        if entered is None:
            return action

        def count(job: Job) -> None:
            entered.append(job.arrived_ms)
            self._n_entered += 1
            action(job)

        return count

    def on_classified(self, job: Job) -> None:
        """A request with a tier of its own is on its way to the router."""
        self._tiers.append(job.tier)
        if self._is_seen is not None:
            self._is_seen[job.number] = True

    def take_back(self, job: Job) -> None:
        """A quota refused a request with a tier of its own: it is no demand."""
        if self._is_seen is not None:
            self._is_seen[job.number] = False
        if self._entered and job.arrived_ms in self._entered:  # else it is longer ago than anybody looks back
            self._entered.remove(job.arrived_ms)
        if job.tier in self._tiers:
            self._tiers.remove(job.tier)

    def last(self) -> Prompts:
        """The last requests that have arrived, those apart that are not seen."""
        hardness = self._last(lambda draws: draws.hardness)
        tiers = self._tiers or [ORDINARY] * min(1, len(hardness))
        return Prompts(hardness, self._last(lambda draws: draws.classes), list(tiers))

    def _last(self, what: Callable[[Draws], Sequence[T]]) -> list[T]:
        past, is_seen = self._tally.requests if self._entered is None else self._n_entered, self._is_seen
        found: list[T] = []
        for first, draws in self._drawn:
            arrived = what(draws)[max(0, past - PROMPTS - first) if is_seen is None else 0 : max(0, past - first)]
            found += arrived if is_seen is None else itertools.compress(arrived, is_seen[first:])
        return found[-PROMPTS:]

    def times_ms(self, _now_ms: int) -> np.ndarray:
        """The last minute, or little more. Before 0 the trace is mirrored: a run begins amid traffic, not at rest."""
        now_ms, trace, window_ms = self._events.now_ms, self._arrivals_ms, 1000 * COUNTS_S
        if self._entered is None:
            first, past = np.searchsorted(trace, [now_ms - window_ms, now_ms], side="right")
            arrived = self._arrivals(first, past)
        else:
            while self._entered and self._entered[0] <= now_ms - window_ms:
                self._entered.popleft()
            arrived = np.array(self._entered, dtype=np.float64).astype(np.int64)
        if now_ms >= window_ms:
            return arrived
        if self._setup.is_cold:
            return np.concatenate([np.array(self._setup.before_ms, dtype=np.int64), arrived])
        mirrored = self._arrivals(0, np.searchsorted(trace, window_ms - now_ms, side="left"))
        return np.concatenate([-mirrored, arrived])

    def _arrivals(self, first: int | np.int64, past: int | np.int64) -> np.ndarray:
        """Return the arrivals of the requests first .. past - 1, without those at the batch gate or over a quota."""
        trace = self._arrivals_ms[first:past]
        return (trace if self._is_seen is None else trace[self._is_seen[first:past]]).astype(np.int64)


class ObservationFeed:
    """Fed by the others as they go; asked once a plan."""

    def __init__(
        self,
        events: EventQueue,
        setup: Setup,
        groups: dict[str, Group],
        tally: RunMetrics,
        arrivals_ms: np.ndarray,
        is_batch: np.ndarray | None = None,
        *,
        has_options: bool = False,
    ) -> None:
        """`is_batch`: as `TraceArrivals` has it. `has_options`: some requests ask for more than an image."""
        self._has_options, self._fits = has_options, Fits(setup.catalog)
        self._events, self._setup, self._groups, self._tally = events, setup, groups, tally
        self._builder = ObservationBuilder(
            setup.catalog,
            TraceArrivals(events, setup, tally, arrivals_ms, is_batch),
            slo_ms=setup.slo_ms,
            in_flight_ms=setup.scale.period_ms,
        )
        self._in_flight = self._builder.in_flight if setup.is_scaled else None  # else it is not needed
        self._best_ms = run_ms(setup.catalog.best(), 1)
        self._results, self._learns = self._builder.results, setup.learns or terms_of(named(setup.policy)).learns
        arrivals, self.queues = self._builder.arrivals, self._builder.queues
        self.on_sampled, self.on_classified = arrivals.on_sampled, arrivals.on_classified
        self._scores: defaultdict[int, list[tuple[str, str, float]]] = defaultdict(
            list
        )  # of open requests: level, by whom
        self._runs: defaultdict[int, list[tuple[str, int, int, int]]] = defaultdict(list)  # what `RunTimes.add` takes
        tally.on_result = self.on_result

    def before(self, action: Callable[[Job], None]) -> Callable[[Job], None]:
        """The action upon a request that was classified: it is seen then, and so are the components that it names."""
        counted, components = self._builder.arrivals.before(action), self._builder.components
        if not components.is_used and not self._has_options:
            return counted

        def count(job: Job) -> None:
            if components.is_used:
                components.on_request(job.options, job.tenant, int(job.arrived_ms))
            needs = self._fits.of(job.options, job.quality).needs()
            self._builder.needs.begin(job.number, job, needs, job.arrived_ms)
            counted(job)

        return count

    def on_arrived(self, job: Job) -> None:
        """A request is in flight until it has ended."""
        if self._in_flight is not None:
            self._in_flight.begin(job.number, job.tenant, "", job.arrived_ms)

    def asked(self) -> frozenset[str]:
        """Return the variants that requests in flight name; "": any level. A fixed fleet knows no more than that."""
        if self._in_flight is None:
            return frozenset({""} if self._tally.open else ())
        return self._in_flight.asked(self._events.now_ms)

    def ended_or_arrived(self) -> int:
        """Return the number of requests and results until now."""
        return self._tally.requests + self._tally.ends.total()

    def needed(self) -> frozenset[tuple[str, ...]]:
        """Return the variants of which requests in flight need one, as no other serves them."""
        return self._builder.needs.asked() if self._has_options else frozenset()

    def on_scored(self, job: Job, discriminator: str, confidence: float) -> None:
        """Keep the confidence of a judged image, which the planner learns when its request has ended."""
        if self._learns:
            self._scores[job.number].append((job.level, discriminator, as_score(confidence)))

    def on_generated(self, call: Sequence[Job], call_ms: float) -> None:
        """Keep the run time of each job of a call, which the planner learns when its request has ended."""
        if self._learns:
            images = sum(job.images for job in call)
            for job in call:
                if job.how is None and job.images == 1 and not isinstance(job.reuse, Reuse):
                    self._runs[job.number].append((job.level, images, job.step, round(call_ms)))

    def on_result(self, job: Job, status: Status, code: str) -> None:
        """A request has ended; `code`: why it was rejected."""
        now_ms, results = self._events.now_ms, self._results
        results.add(status, int(now_ms), now_ms - job.arrived_ms, code)
        if self._in_flight is not None:
            lacked = status is Status.REJECTED and code in LACKED_CAPACITY
            self._in_flight.end(job.number, now_ms, self._best_ms if lacked else 0.0)
        if self._has_options:
            self._builder.needs.end(job.number, is_demand=code != QUOTA)
        if code == QUOTA:
            self._builder.arrivals.take_back(job)
        if job.reuse is not None and job.share:
            self._add_reuse(job)
        if self._runs:
            for run in self._runs.pop(job.number, ()):
                self._builder.run_times.add(*run)
        if self._scores:
            for level, discriminator, confidence in self._scores.pop(job.number, ()):
                results.add_score(level, discriminator, job.draws.hardness[job.row], confidence)

    def _add_reuse(self, job: Job) -> None:
        decision, catalog = job.reuse, self._setup.catalog
        if isinstance(decision, Reuse):
            self._builder.reuse.add(job.level, decision.step, decision.steps, "", catalog)
        elif decision is not None:
            self._builder.reuse.add(job.level, 0, catalog.level(job.variant).steps, decision.why, catalog)

    def sample_queues(self) -> None:
        """Take in how far the topics of variants reach that somebody reads, all partitions of one together."""
        for variant, group in self._groups.items():
            if group.members:
                self._builder.queues.sample(variant, 0, int(self._events.now_ms), sum(group.ends))

    def observation(
        self, request: PlanRequest, heartbeats: Mapping[str, ReceivedHeartbeat], plan: Plan | None
    ) -> Observation:
        """Return the observation of this moment, of the live workers. `plan`: the planner's last one."""
        return self._builder.observation(request.now_ms, request.workers, heartbeats, plan, self._tally.open)

"""Runs a trace through one simulated deployment, until every request has ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.control.planning import TICK_MS
from planner.serving.admission.batch_gate import BatchGate
from planner.serving.admission.tenants import Rights
from planner.serving.routing.escalation import EscalationLogic
from planner.serving.routing.reroute import OrphanRouting
from planner.serving.routing.routing import BacklogLimits, RoutingLogic
from replay.simulation.draws.delays import Delay
from replay.simulation.draws.recorded import Recorded
from replay.simulation.draws.repeats import Repeats
from replay.simulation.draws.run_times import RunTimes
from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Draws, Job
from replay.simulation.overrides import BATCH, RequestedOverrides, metrics_for
from replay.simulation.results.reuse_metrics import Figure
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.results.timeline import Timeline
from replay.simulation.roles.batch_gate import BatchClassifier
from replay.simulation.roles.fleet import Fleet
from replay.simulation.roles.heartbeats import Heartbeats
from replay.simulation.roles.judge import Judge
from replay.simulation.roles.lookups import Lookups
from replay.simulation.roles.observation_feed import ObservationFeed
from replay.simulation.roles.plan_state import PlanState
from replay.simulation.roles.planning import PlannerLoop
from replay.simulation.roles.rerouting import Rerouter
from replay.simulation.roles.router import Router
from replay.simulation.roles.sender import FleetLoads
from replay.simulation.roles.serving import Serving
from replay.simulation.roles.stores import ObjectStore
from replay.simulation.setup import Outage, Setup
from replay.simulation.times import CallTimes
from replay.traces.outages import OBJECT_STORE, VECTOR_STORE
from schemas.messages import Plan

STEP_MS = 1000.0  # of the clock, when nothing arrives any more
MAX_IDLE_MS = 600_000.0  # without any end, after the last arrival and outage: what is open waits for what never comes

CHUNK = 8192  # requests drawn at once

Source = Callable[[int, int], Draws]
"""(first, count) -> the draws of the requests first .. first + count - 1."""


@dataclass(frozen=True, slots=True)
class Ran:
    """The results of a run."""

    setup: Setup
    tally: RunMetrics
    ended_ms: float  # of the last request
    busy_ms: float  # workers generating
    lives: tuple[tuple[float, float], ...]  # of each process, from and to: from 0 on, until the last request ended
    plans: tuple[Plan, ...]  # that were published, without routes and memory: a run may have thousands
    failures: int  # of the policy to make one
    switches: int
    solver_s: float  # wall time of planning
    stores: dict[str, float] = field(default_factory=dict)  # as `ObjectStore.as_table`
    reuse: dict[str, Figure] = field(default_factory=dict)  # as `ReuseMetrics.as_table`; {}: no plan asked for it

    @property
    def up_ms(self) -> float:
        """Sum of the time that workers were alive, in ms."""
        return sum(end_ms - start_ms for start_ms, end_ms in self.lives)

    @property
    def timeline(self) -> Timeline:
        """The run's events over time."""
        return self.tally.timeline


def _source(setup: Setup, repeats: Repeats | None) -> Source:
    if setup.prompts is None:
        return SyntheticOutcomes(setup.true_catalog, setup.seed, repeats=repeats)
    return Recorded(setup.true_catalog, setup.prompts, setup.seed, repeats)


class Simulation:
    """A deployment wired up; `run` once."""

    def __init__(
        self,
        setup: Setup,
        arrivals_ms: np.ndarray,
        source: Source | None = None,
        ids: Sequence[str] = (),
        wishes: RequestedOverrides | None = None,
        escalation: EscalationLogic | None = None,
        repeats: Repeats | None = None,
    ) -> None:
        """`ids`: of the requests, where they are known; routes draw by them. `escalation`: in place of its logic.

        `repeats`: of their prompts, where these are known.
        """
        self._setup, self._arrivals_ms, self._ids, self._wishes = setup, arrivals_ms, ids, wishes
        self._source = source or _source(setup, repeats)
        timing, catalog = setup.timing, setup.catalog
        agenda, board = EventQueue(-timing.warm_up_ms), PlanState(catalog)
        times, self.tally = CallTimes(catalog), metrics_for(wishes, setup.slo_ms, arrivals_ms)
        self._pulse = pulse = Heartbeats(agenda, timing, times)
        self._store = store = ObjectStore(agenda)
        self._lookups = Lookups(agenda, board, catalog, setup.seed, repeats)
        run_times = RunTimes(setup.variation, setup.seed)
        serving = Serving(
            agenda, board, catalog, timing, times, self.tally, store, self._lookups, setup.seed, run_times
        )
        serving.true_times = CallTimes(setup.true_catalog)
        self._fleet = Fleet(agenda, board, catalog, timing, pulse, serving, self.tally, setup.seed, run_times=run_times)
        self._fleet.speeds = {name: setup.variation.speed_of(n) for n, name in enumerate(setup.worker_ids())}
        rights = Rights(setup.quotas) if self.tally.tenants else None
        limits = BacklogLimits(timing.interactive_backlog_ms, timing.most_backlog_ms)
        routing = RoutingLogic(catalog, limits, rights)
        loads = FleetLoads(agenda, pulse, timing, tuple(catalog.variants))
        self._router = Router(agenda, board, self._fleet, pulse, timing, times, self.tally, routing, loads)
        is_batch = wishes.is_batch() if wishes else None
        self._senses = ObservationFeed(agenda, setup, pulse.groups, self.tally, arrivals_ms, is_batch)
        orphans = OrphanRouting(catalog, routing, int(timing.silent_ms))
        Rerouter(agenda, board, self._fleet, pulse, timing, times, self.tally, orphans, loads)
        if rights is not None:
            self.tally.on_end.append(lambda job: routing.abandon(job.request_id))
        logic = escalation or EscalationLogic(catalog)
        judge = Judge(agenda, board, self._fleet, pulse, timing, times, catalog, self.tally, store, logic)
        judge.on_scored = self._senses.on_scored
        serving.on_generated = self._senses.on_generated
        hops = timing.hops
        serving.on_images = Delay(agenda, hops.judge, hops.slot_ms, setup.seed, "judge").before(judge.on_images)
        enter = self._senses.before(self._router.take)
        self._enter = Delay(agenda, hops.arrive, hops.slot_ms, setup.seed, "arrive").before(enter)
        self._batch = BatchClassifier(agenda, pulse, timing, times, catalog, self.tally, BatchGate())
        self._batch.on_passed = self._classified
        self._planner = PlannerLoop(agenda, board, setup, self._fleet, pulse, self._senses)
        self._agenda = agenda

    def run(self, on_progress: Callable[[int], object] = lambda _requests: None) -> Ran:
        """Serve the whole trace; `on_progress` is called now and then with the number of new arrivals."""
        for worker_id in self._setup.worker_ids():
            self._fleet.start(worker_id)
        self._planner.start()
        self._agenda.at(0.0, Simulation._sample_backlog, self)
        for outage in self._setup.outages:
            self._agenda.at(outage.at_ms, self._on_outage, outage)
        for first in range(0, len(self._arrivals_ms), CHUNK):
            arrivals = self._arrivals_ms[first : first + CHUNK].tolist()
            self._serve(first, arrivals)
            on_progress(len(arrivals))
        return self._ran(self._finish())

    def _serve(self, first: int, arrivals_ms: list[float]) -> None:
        setup, wishes, tally, advance = self._setup, self._wishes, self.tally, self._agenda.advance
        enter = self._by_tier if wishes else self._enter
        new = wishes.job if wishes else Job
        draws = self._source(first, len(arrivals_ms))
        self._senses.on_sampled(first, draws)
        for row, at_ms in enumerate(arrivals_ms):
            advance(at_ms)
            number = first + row
            deadline_ms = at_ms + setup.slo_ms if setup.drops else None
            request_id = self._ids[number] if self._ids else f"{setup.seed}-{number}"
            job = new(number, request_id, at_ms, deadline_ms, draws, row)
            tally.requests += 1
            enter(job)

    def _by_tier(self, job: Job) -> None:
        """Pass a request to the batch gate, or at once to the router."""
        if job.tier == BATCH:
            self._batch.take(job)
        else:
            self._classified(job)

    def _classified(self, job: Job) -> None:
        self._senses.on_classified(job)
        self._enter(job)

    def _finish(self) -> float:
        """Run on after the last arrival; return when the last request ended."""
        agenda, tally = self._agenda, self.tally
        ended, ended_ms = tally.ends.total(), agenda.now_ms
        last_ms = max((outage.at_ms for outage in self._setup.outages), default=0.0)
        while tally.open and agenda.now_ms - max(ended_ms, last_ms) < MAX_IDLE_MS:
            agenda.advance(agenda.now_ms + STEP_MS)
            if tally.ends.total() > ended:
                ended, ended_ms = tally.ends.total(), agenda.now_ms
        tally.end_span()
        return ended_ms

    def _sample_backlog(self) -> None:
        """Sample the waiting work; this changes nothing, so that a run does not depend on the samples."""
        timeline, now_ms = self.tally.timeline, self._agenda.now_ms
        timeline.sampled(now_ms, self._pulse.backlog_ms())
        self._agenda.at(now_ms + timeline.sample_ms, Simulation._sample_backlog, self)

    def _on_outage(self, outage: Outage) -> None:
        if outage.worker_id == OBJECT_STORE:
            self._store.change(outage.is_up)
        elif outage.worker_id == VECTOR_STORE:
            self._lookups.store.change(outage.is_up)
        elif outage.is_up:
            self._fleet.start(outage.worker_id)
            self._planner.plan_if_due()
        else:
            self._fleet.stop(outage.worker_id)
            gone_ms = outage.at_ms + self._setup.timing.silent_ms + TICK_MS
            self._agenda.at(gone_ms, PlannerLoop.plan_if_due, self._planner)

    def _ran(self, ended_ms: float) -> Ran:
        processes = self._fleet.all
        lives = [(max(0.0, p.started_ms), p.stopped_ms if p.stopped_ms >= 0 else ended_ms) for p in processes]
        return Ran(
            setup=self._setup,
            tally=self.tally,
            ended_ms=ended_ms,
            busy_ms=sum(p.busy_ms for p in processes),
            lives=tuple(lives),
            plans=tuple(self._planner.published),
            failures=len(self._planner.failures),
            switches=self._fleet.switches,
            solver_s=self._planner.solver_s,
            stores=self._store.as_table(ended_ms),
            reuse=self._reuse(ended_ms),
        )

    def _reuse(self, ended_ms: float) -> dict[str, Figure]:
        if not self._lookups.is_used:
            return {}
        self._lookups.metrics.down_ms = self._lookups.store.down_ms(ended_ms)
        return self._lookups.metrics.as_table(self.tally.under_way, self.tally.under_way_violations)

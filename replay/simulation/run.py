"""Runs a trace through one simulated deployment, until every request has ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.control.planning import TICK_MS
from planner.serving.admission.admission import Way, way_of
from planner.serving.admission.batch_gate import BatchGate
from planner.serving.admission.tenants import Rights
from planner.serving.features import checks_of
from planner.serving.routing.escalation import EscalationLogic
from planner.serving.routing.reroute import OrphanRouting
from planner.serving.routing.routing import BacklogLimits, RoutingLogic
from replay.simulation.draws.delays import Delay
from replay.simulation.draws.hop_latencies import Slots
from replay.simulation.draws.recorded import Recorded
from replay.simulation.draws.repeats import Repeats
from replay.simulation.draws.run_times import RunTimes
from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Draws, Job
from replay.simulation.overrides import RequestedOverrides, metrics_for
from replay.simulation.results.component_metrics import Figure as ComponentFigure
from replay.simulation.results.reuse_metrics import Figure
from replay.simulation.results.run_metrics import RunMetrics
from replay.simulation.results.timeline import Timeline
from replay.simulation.roles.control.observation_feed import ObservationFeed
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.control.planning import PlannerLoop
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.batch_gate import BatchClassifier
from replay.simulation.roles.routing.forwarder import Forwarder
from replay.simulation.roles.routing.judge import Judge
from replay.simulation.roles.routing.rerouting import Rerouter
from replay.simulation.roles.routing.router import Router
from replay.simulation.roles.routing.sender import FleetLoads, WaitingTopics
from replay.simulation.roles.workers.components import Components
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.roles.workers.lookups import Lookups
from replay.simulation.roles.workers.serving import Serving
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.roles.workers.supply import Supply
from replay.simulation.setup import OBJECT_STORE, VECTOR_STORE, Outage, Setup
from replay.simulation.times import CallTimes
from schemas.messages import Plan

STEP_MS = 1000.0  # of the clock, when nothing arrives any more
GAP_MS = 120_000.0  # between two arrivals, after which it is looked whether anything happens until the next
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
    scale: dict[str, float] = field(default_factory=dict)  # as `Supply.as_table`; {}: the fleet stayed as it was
    components: dict[str, ComponentFigure] = field(default_factory=dict)  # as `ComponentMetrics.as_table`; {}: none

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
        end_ms: float = 0.0,
    ) -> None:
        """`ids`: of the requests, where they are known; routes draw by them. `escalation`: in place of its logic.

        `repeats`: of their prompts, where these are known. `end_ms`: of the recorded trace, where this is a redraw.
        """
        self._setup, self._arrivals_ms, self._ids, self._wishes = setup, arrivals_ms, ids, wishes
        self._source = source or _source(setup, repeats)
        timing, catalog = setup.timing, setup.catalog
        self._events, self._plan_state = EventQueue(-timing.warm_up_ms), PlanState(catalog)
        self._times, self.tally = CallTimes(catalog), metrics_for(wishes, setup.slo_ms, arrivals_ms, end_ms)
        self._beats = Heartbeats(self._events, timing, self._times)
        self._ledger = Ledger(self._events, self._plan_state, self.tally, timing.grace_ms)
        self._store, self._waiting = ObjectStore(self._events), WaitingTopics()
        self._lookups = Lookups(self._events, self._plan_state, catalog, setup.seed, repeats)
        is_batch = wishes.is_batch() if wishes else None
        self._feed = ObservationFeed(
            self._events, setup, self._beats.groups, self.tally, arrivals_ms, is_batch, has_options=wishes is not None
        )
        self._feed.queues.held = self._waiting.queues.count
        run_times = RunTimes(setup.variation, setup.seed)
        self._serving = self._new_serving(run_times)
        self._fleet = self._new_fleet(run_times)
        self._enter = self._delayed("arrive", timing.hops.arrive).before(self._feed.before(self._new_router().take))
        judge = self._new_judge(escalation or EscalationLogic(catalog, setup.slo_ms))
        self._serving.on_images = self._delayed("judge", timing.hops.judge).before(judge.on_images)
        gate = BatchGate()
        self._batch = BatchClassifier(self._events, self._beats, timing, self._times, catalog, self._ledger, gate)
        self._batch.on_passed = self._classified
        self._planner = PlannerLoop(self._events, self._plan_state, setup, self._fleet, self._beats, self._feed)
        self._supply: Supply | None = None
        if setup.is_scaled:
            self._fleet.max_workers = setup.scale.max_workers
            self._supply = Supply(self._events, self._plan_state, setup, self._fleet, self._beats)

    def _new_serving(self, run_times: RunTimes) -> Serving:
        """Return the workers' generating, in true times."""
        setup = self._setup
        serving = Serving(
            self._events, self._plan_state, setup.catalog, setup.timing, self._times, self._ledger, self._store,
            self._lookups, setup.seed, run_times, setup.slo_ms,
        )  # fmt: skip
        serving.true_times = CallTimes(setup.true_catalog)
        serving.on_generated = self._feed.on_generated
        if setup.components is not None:
            serving.components = Components(self._events, self._plan_state, setup.catalog, setup.components)
            serving.components.on_changed = self._beats.now
        return serving

    def _new_fleet(self, run_times: RunTimes) -> Fleet:
        """The workers, each with its speed."""
        setup = self._setup
        fleet = Fleet(
            self._events, self._plan_state, setup.catalog, setup.timing, self._beats, self._serving, self.tally,
            setup.seed, run_times=run_times,
        )  # fmt: skip
        fleet.speeds = {name: setup.variation.speed_of(n) for n, name in enumerate(setup.worker_ids())}
        return fleet

    def _new_router(self) -> Router:
        """The router, and in its process the forwarder of waiting jobs and the search for orphaned ones.

        Where tenants count, it has their rights.
        """
        timing, catalog = self._setup.timing, self._setup.catalog
        rights = Rights(self._setup.quotas) if self.tally.tenants else None
        limits = BacklogLimits(timing.interactive_backlog_ms, timing.most_backlog_ms)
        checks = checks_of(self._setup.features, catalog)
        start_ms, slo_ms = self._setup.scale.start_ms, self._setup.slo_ms
        logic = RoutingLogic(catalog, limits, rights, start_ms=start_ms, slo_ms=slo_ms, checks=checks)
        if rights is not None:
            self.tally.on_end.append(lambda job: logic.abandon(job.request_id))
        loads = FleetLoads(self._events, self._plan_state, self._beats, timing, self._times, self._waiting)
        shared = (self._events, self._plan_state, self._fleet, self._beats, timing, self._times, self._ledger)
        self._serving.on_refuge = Forwarder(*shared, self._waiting, loads).enqueue
        Rerouter(*shared, OrphanRouting(catalog, logic, int(timing.silent_ms)), self._waiting, loads)
        return Router(*shared, logic, self._waiting, loads)

    def _new_judge(self, logic: EscalationLogic) -> Judge:
        """The discriminator, whose scores the planner sees."""
        setup = self._setup
        judge = Judge(
            self._events, self._plan_state, self._fleet, self._beats, setup.timing, self._times, setup.catalog,
            self._ledger, self._store, logic, self._waiting,
        )  # fmt: skip
        judge.on_scored = self._feed.on_scored
        return judge

    def _delayed(self, kind: str, distributions: Slots) -> Delay:
        """The delay of a kind of hop, with draws of its own."""
        return Delay(self._events, distributions, self._setup.timing.hops.slot_ms, self._setup.seed, kind)

    def run(self, on_progress: Callable[[int], object] = lambda _requests: None) -> Ran:
        """Serve the whole trace; `on_progress` is called with the number of new arrivals, and ends them by True."""
        for worker_id in self._setup.worker_ids():
            self._fleet.start(worker_id)
        self._planner.start()
        if self._supply is not None:
            self._supply.begin()
        self._events.at(0.0, Simulation._sample_backlog, self)
        for outage in self._setup.outages:
            self._events.at(outage.at_ms, self._on_outage, outage)
        for first in range(0, len(self._arrivals_ms), CHUNK):
            if self._serve(first, self._arrivals_ms[first : first + CHUNK].tolist(), on_progress):
                self.tally.timeline.end_with(self._arrivals_ms[: self.tally.requests])
                ended_ms = self._finish()
                self.tally.tiers = self.tally.tenants = {}  # they count the requests of the whole trace
                return self._ran(ended_ms)
        return self._ran(self._finish())

    def _serve(self, first: int, arrivals_ms: list[float], on_progress: Callable[[int], object]) -> bool:
        """Take in some requests; return whether `on_progress` has ended the run."""
        setup, wishes, tally, advance = self._setup, self._wishes, self.tally, self._advance
        enter = self._by_tier if wishes else self._enter
        new, is_scaled = wishes.job if wishes else Job, setup.is_scaled
        draws = self._source(first, len(arrivals_ms))
        self._feed.on_sampled(first, draws)
        for row, at_ms in enumerate(arrivals_ms):
            advance(at_ms)
            number = first + row
            deadline_ms = at_ms + setup.slo_ms if setup.drops else None
            request_id = self._ids[number] if self._ids else f"{setup.seed}-{number}"
            job = new(number, request_id, at_ms, deadline_ms, draws, row)
            tally.requests += 1
            if is_scaled:
                self._feed.on_arrived(job)
            enter(job)
            if on_progress(1) is True:
                return True
        return False

    def _advance(self, until_ms: float) -> None:
        """Go on to a moment; time in which nothing happens costs nothing."""
        events = self._events
        while until_ms - events.now_ms > GAP_MS:
            if self._supply is None and not self.tally.open and self._planner.rests():
                self._skip(until_ms)
            events.advance(min(until_ms, events.now_ms + STEP_MS))
        events.advance(until_ms)

    def _skip(self, until_ms: float) -> None:
        since_ms = self._events.now_ms
        skipped_ms = self._events.skip(until_ms, self._setup.period_ms)
        if skipped_ms:
            self._planner.skip(skipped_ms)
            self._beats.skip(skipped_ms)
            self.tally.timeline.skipped(since_ms, since_ms + skipped_ms)

    def _by_tier(self, job: Job) -> None:
        """Pass a request to the batch gate, or at once to the router."""
        if way_of(job.tier, job.deadline_ms, self._events.now_ms, has_waited=False) is Way.BATCH:
            self._batch.take(job)
        else:
            self._classified(job)

    def _classified(self, job: Job) -> None:
        self._feed.on_classified(job)
        self._enter(job)

    def _finish(self) -> float:
        """Run on after the last arrival; return when the last request ended."""
        events, tally = self._events, self.tally
        ended, ended_ms = tally.ends.total(), events.now_ms
        last_ms = max((outage.at_ms for outage in self._setup.outages), default=0.0)
        while tally.open and events.now_ms - max(ended_ms, last_ms) < MAX_IDLE_MS:
            events.advance(events.now_ms + STEP_MS)
            if tally.ends.total() > ended:
                ended, ended_ms = tally.ends.total(), events.now_ms
        tally.end_span()
        return ended_ms

    def _sample_backlog(self) -> None:
        """Sample the waiting work; this changes nothing, so that a run does not depend on the samples."""
        timeline, now_ms = self.tally.timeline, self._events.now_ms
        timeline.sampled(now_ms, self._beats.backlog_ms())
        if self._serving.components is not None:
            self._serving.components.sample()
        self._events.repeat(now_ms + timeline.sample_ms, Simulation._sample_backlog, self)

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
            self._events.at(gone_ms, PlannerLoop.plan_if_due, self._planner)

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
            scale=self._supply.as_table(tuple(lives), ended_ms) if self._supply else {},
            components=self._serving.components.metrics.as_table() if self._serving.components else {},
        )

    def _reuse(self, ended_ms: float) -> dict[str, Figure]:
        if not self._lookups.is_used:
            return {}
        self._lookups.metrics.down_ms = self._lookups.store.down_ms(ended_ms)
        return self._lookups.metrics.as_table(self.tally.under_way, self.tally.under_way_violations)

"""Sends jobs to workers, for the simulated router and discriminator. `WorkerChoice` chooses the worker."""

import math
from abc import abstractmethod
from collections import deque
from functools import partial

from planner.catalog.options import AS_IT_IS, resolve_options
from planner.serving.dispatch.dispatch import RETRY_MS, JobCost, Retry, WorkerChoice
from planner.serving.dispatch.lacking import Need, Needs
from planner.serving.dispatch.worker_loads import WorkerPool
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.routing.load_view import SimulatedLoadView
from replay.simulation.roles.workers.fleet import Fleet
from replay.simulation.roles.workers.heartbeats import Heartbeats, Subscription
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.ids import draw

MAX_RETRIES_AT_ONCE = 10  # looks for an idle worker that are skipped, as nobody is expected to be idle before
NO_OWNER = "no-owner"


class FleetLoads:
    """The loads of all workers as one process sees them: heartbeats and its own sends."""

    def __init__(self, events: EventQueue, beats: Heartbeats, timing: Timing, variants: tuple[str, ...]) -> None:
        self.view = SimulatedLoadView()
        self._events, self._beats, self._silent_ms, self._variants = events, beats, timing.silent_ms, variants
        self._subscription: Subscription | None = None  # for heartbeats; None: not listening yet

    def pool(self, variant: str) -> WorkerPool:
        """The workers that take new jobs of a variant."""
        if self._subscription is None:  # only now: a sender without requests needs no heartbeats
            self._subscription = self._beats.subscribe(self.view)
        self._subscription.listen(variant)
        now_ms = self._events.now_ms
        pool = self.view.known_pool(variant, now_ms)
        if pool is None:
            self._subscription.take_in_signs_of_life()
            pool = self.view.pool(variant, now_ms, self._silent_ms)
        return pool

    def wait_ms(self, variant: str) -> float:
        """Time until the least loaded worker of a variant is free; infinite where nobody serves it."""
        return self.pool(variant).wait_ms(self._events.now_ms)

    def serving(self) -> int:
        """Number of workers that take new jobs, of all variants."""
        return sum([len(self.pool(variant).free) for variant in self._variants])


class Sender:
    """Serves one record after the other."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, fleet: Fleet, beats: Heartbeats, timing: Timing,
        times: CallTimes, loads: FleetLoads | None = None,
    ) -> None:  # fmt: skip
        """`loads`: of the process that this sender is part of; None: it is a process of its own."""
        self._events, self._plan_state, self._fleet, self._times = events, plan_state, fleet, times
        self._loads = loads or FleetLoads(events, beats, timing, tuple(times.catalog.variants))
        self._choice, self._needs = WorkerChoice(times.catalog), Needs(times.catalog)
        self._held: deque[Job] = deque()  # behind one that waits for an idle worker
        self._idle_in_ms = 0.0  # of the one that waits

    def take(self, job: Job) -> None:
        """Serve a record, or keep it until those before it are served."""
        if self._held or not self._serve(job):
            self._hold(job)

    @abstractmethod
    def _serve(self, job: Job) -> bool:
        """Whether it is served; False: it waits for an idle worker, and everything behind it."""

    def _hold(self, job: Job) -> None:
        self._held.append(job)
        if len(self._held) == 1:
            self._events.at(self._events.now_ms + RETRY_MS, Sender._retry, self)

    def _retry(self) -> None:
        while self._held and self._serve(self._held[0]):
            self._held.popleft()
        if self._held:
            at_once = max(1, min(math.ceil(self._idle_in_ms / RETRY_MS), MAX_RETRIES_AT_ONCE))
            self._events.at(self._events.now_ms + RETRY_MS * at_once, Sender._retry, self)

    def _place(self, job: Job) -> bool:
        """Send it to a worker of its variant, or where one may come; False: none is idle, and the plan says to wait."""
        variant, now_ms = job.variant, self._events.now_ms
        pool, group = self._loads.pool(variant), self._fleet.group(variant)
        need, cost = self._need(job), None
        if need is not None:
            cost = JobCost(self._times.of_job(job), partial(pool.lacking_ms, need=need))
        place = self._choice.choose(self._plan_state.plan, variant, job.request_id, pool.free, now_ms, cost)
        if place is None:
            partition = int(draw(job.request_id, NO_OWNER) * len(group.ends))
        elif isinstance(place, Retry):
            self._idle_in_ms = place.idle_in_ms
            return False
        else:
            partition = pool.next_partition(place)
            run_ms = self._times.of_job(job)
            self._loads.view.on_sent(variant, partition, group.ends[partition], run_ms, now_ms, need)
            self._choice.on_sent(variant)
        self._fleet.send(variant, partition, job)
        return True

    def _need(self, job: Job) -> Need | None:
        """The components that it needs; None: its variant lists no bases."""
        variant = self._times.catalog.level(job.variant)
        if not variant.bases:
            return None
        how = job.how or resolve_options(AS_IT_IS, variant)
        return self._needs.of(variant.name, how.components)

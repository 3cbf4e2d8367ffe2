"""Sends jobs to workers, for the simulated router and discriminator. `WorkerChoice` chooses the worker."""

from collections.abc import Callable
from functools import partial
from typing import Self

from planner.catalog.components import Selection
from planner.catalog.options import AS_IT_IS, resolve_options
from planner.serving.dispatch.dispatch import DEFAULT_TIER, JobCost, Retry, WorkerChoice, holds, holds_back, queued_ms
from planner.serving.dispatch.lacking import Need, Needs
from planner.serving.dispatch.waiting import PullQueues, Waiting
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

NO_OWNER = "no-owner"
HELD = Retry(0.0, 0.0)


def ignore(_variant: str) -> None:
    """Forward nothing."""


class WaitingTopics:
    """The topics of jobs that wait for idle workers, which all senders write and one process forwards from."""

    def __init__(self) -> None:
        self.queues: PullQueues[Job] = PullQueues()
        self.on_job: Callable[[str], None] = ignore  # called with the variant of each job that comes

    def append(self, job: Job, least_ms: float) -> None:
        """Put a job behind those of its variant; `least_ms` as in `Waiting`."""
        self.queues.add(job.variant, Waiting(job, job.request_id, job.tier, job.deadline_ms, least_ms))
        self.on_job(job.variant)


class FleetLoads:
    """The loads of all workers as one process sees them: heartbeats and its own sends."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, beats: Heartbeats, timing: Timing, times: CallTimes,
        waiting: WaitingTopics,
    ) -> None:  # fmt: skip
        self._plan_state, self._moves_at_once = plan_state, not timing.residency.beside_factor
        self.view, self.needs = SimulatedLoadView(), Needs(times.catalog)
        self._events, self._beats, self._silent_ms = events, beats, timing.silent_ms
        self._variants, self._times, self._queues = tuple(times.catalog.variants), times, waiting.queues
        self._tier = DEFAULT_TIER  # of the request that is decided on
        self._subscription: Subscription | None = None  # for heartbeats; None: not listening yet

    def of(self, tier: str) -> Self:
        """Return the loads for the decisions on a request of `tier`, until those for another are asked for."""
        self._tier = tier
        return self

    def pool(self, variant: str) -> WorkerPool:
        """The workers that take new jobs of a variant."""
        if self._subscription is None:  # only now: a sender without requests needs no heartbeats
            self._subscription = self._beats.subscribe(self.view)
        self._subscription.listen(variant)
        if self._moves_at_once:
            self.view.obey(self._plan_state.plan)
        now_ms = self._events.now_ms
        pool = self.view.known_pool(variant, now_ms)
        if pool is None:
            self._subscription.take_in_signs_of_life()
            pool = self.view.pool(variant, now_ms, self._silent_ms)
        return pool

    def wait_ms(self, variant: str) -> float:
        """Return the ms until the least loaded worker of a variant is free; infinite if no worker serves it."""
        pool = self.pool(variant)
        queued_ms, holds = self._queued_ms(variant, pool), holds_back(self._plan_state.plan)
        return pool.wait_ms(self._events.now_ms, queued_ms, holds=holds)

    def ready_ms(self, variant: str, selection: Selection) -> float:
        """Time until a worker of a variant is free and has loaded what it lacks of a request's components."""
        pool = self.pool(variant)
        ready_ms = pool.ready_ms(self.needs.of(variant, selection), self._events.now_ms)
        return ready_ms + self._queued_ms(variant, pool)

    def _queued_ms(self, variant: str, pool: WorkerPool) -> float:
        jobs = self._queues.count(variant)
        if not jobs:
            return 0.0
        return queued_ms(jobs, pool.slowness * self._times[variant, 1, 0], len(pool.free), self._tier)

    def slowness(self, variant: str) -> float:
        """Return the run time of a variant's calls as a multiple of the profiled one; 1 if no worker serves it."""
        return self.pool(variant).slowness

    def serving_of(self, variant: str) -> int:
        """Number of workers that take new jobs of a variant."""
        return len(self.pool(variant).free)

    def serving(self) -> int:
        """Number of workers that take new jobs, of all variants."""
        return sum([len(self.pool(variant).free) for variant in self._variants])


class Sender:
    """Sends jobs to workers, one after the other."""

    def __init__(
        self, events: EventQueue, plan_state: PlanState, fleet: Fleet, beats: Heartbeats, timing: Timing,
        times: CallTimes, waiting: WaitingTopics, loads: FleetLoads | None = None,
    ) -> None:  # fmt: skip
        """`loads`: of the process that this sender is part of; None if it is a process of its own."""
        self._events, self._plan_state, self._fleet, self._times = events, plan_state, fleet, times
        self._loads = loads or FleetLoads(events, plan_state, beats, timing, times, waiting)
        self._choice, self._waiting = WorkerChoice(times.catalog), waiting

    def _place(self, job: Job) -> None:
        """Send it to a worker of its variant, or where one may come, or to the variant's queue."""
        is_held = holds(self._plan_state.plan, self._waiting.queues.count(job.variant))
        place = HELD if is_held else self._choose(job)
        if isinstance(place, Retry):
            self.enqueue(job)
        else:
            self._send(job, place)

    def enqueue(self, job: Job) -> None:
        """Put it into the queue of its variant."""
        judging_ms = job.judged * self._plan_state.judging_ms(job.level)
        run_ms = self._times.call_ms(job.variant, job.images, job.how, job.step) * (1 - job.share)
        self._waiting.append(job, run_ms + judging_ms)

    def _choose(self, job: Job) -> int | Retry | None:
        """The place of the job's worker, by the plan's dispatch."""
        variant, pool, cost = job.variant, self._loads.pool(job.variant), None
        need = self._need(job)
        if need is not None:
            cost = JobCost(pool.slowness * self._times.of_job(job), partial(pool.lacking_ms, need=need))
        plan, now_ms = self._plan_state.plan, self._events.now_ms
        return self._choice.choose(plan, variant, job.request_id, pool.free, now_ms, cost)

    def _send(self, job: Job, place: int | None) -> None:
        """Send it to the worker at a place of its pool; with None, to a partition that may get an owner."""
        variant, group = job.variant, self._fleet.group(job.variant)
        if place is None:
            partition = int(draw(job.request_id, NO_OWNER) * len(group.ends))
        else:
            partition = self._loads.pool(variant).next_partition(place)
            run_ms, offset = self._times.of_job(job), group.ends[partition]
            self._loads.view.on_sent(variant, partition, offset, run_ms, self._events.now_ms, self._need(job))
            self._choice.on_sent(variant)
        self._fleet.send(variant, partition, job)

    def _need(self, job: Job) -> Need | None:
        """Return the components that it needs; None if its variant lists no bases."""
        variant = self._times.catalog.level(job.variant)
        if not variant.bases:
            return None
        how = job.how or resolve_options(AS_IT_IS, variant)
        return self._loads.needs.of(variant.name, how.components)

"""Writes jobs for the workers that get them, and counts what is on its way: for the router and the discriminator.

By a plan that pulls or holds, jobs go to the queue of their variant instead, from which `waiting/` forwards them.
"""

import dataclasses

from agents.runtime.records import job_record, waiting_record
from agents.runtime.views import FleetView, WaitingCounts
from planner.catalog.components import Selection
from planner.catalog.entries import reuse_share, run_ms
from planner.catalog.model import Catalog
from planner.catalog.options import job_options, resolved_ms
from planner.serving.dispatch.dispatch import DEFAULT_TIER, JobCost, Retry, WorkerChoice, holds, holds_back, queued_ms
from planner.serving.dispatch.lacking import Need, Needs
from planner.serving.dispatch.worker_loads import Load, Sent, WorkerPool
from planner.serving.routing.placement import Placement, placed_job
from planner.serving.unreadable import elsewhere
from schemas.messages import ClassifiedRequest, GenerateJob, Plan, Stage
from schemas.record import Delivered, Headers, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.kafka.producers.topic_limits import LIMITS

NOWHERE = -1  # an offset that every heartbeat has counted


class FleetLoads:
    """The loads of the workers at one moment, for the decisions on one request."""

    def __init__(
        self,
        fleet: FleetView,
        catalog: Catalog,
        waiting: WaitingCounts,
        needs: Needs,
        at_ms: int,
        tier: str,
        plan: Plan,
    ) -> None:
        self._fleet = fleet
        self._catalog = catalog
        self._waiting = waiting
        self._needs = needs
        self._at_ms, self._tier, self._holds = at_ms, tier, holds_back(plan)

    def wait_ms(self, variant: str) -> float:
        """Time until the least loaded worker of a variant is free, and its queue served; infinite without a worker."""
        return self._fleet.wait_ms(variant, self._at_ms, self._queued_ms(variant), holds=self._holds)

    def ready_ms(self, variant: str, selection: Selection) -> float:
        """Time until a worker of a variant is free and has loaded what it lacks of a request's components."""
        ready_ms = self._fleet.ready_ms(variant, self._needs.of(variant, selection), self._at_ms)
        return ready_ms + self._queued_ms(variant)

    def _queued_ms(self, variant: str) -> float:
        jobs = self._waiting.count(variant)
        if not jobs:
            return 0.0
        image_ms = self.slowness(variant) * run_ms(self._catalog.level(variant), 1)
        return queued_ms(jobs, image_ms, self.serving_of(variant), self._tier)

    def slowness(self, variant: str) -> float:
        """Run time of a variant's calls as a multiple of the profiled one; 1 if no worker serves it."""
        return self._fleet.slowness(variant, self._at_ms)

    def serving_of(self, variant: str) -> int:
        """Number of workers that take new jobs of a variant."""
        return self._fleet.serving([variant], self._at_ms)

    def serving(self) -> int:
        """Number of workers that take new jobs, of all variants."""
        return self._fleet.serving(self._catalog.served, self._at_ms)


class Dispatcher:
    """Knows the loads of all workers, its own sends included."""

    def __init__(self, catalog: Catalog, fleet: FleetView, role: str, waiting: WaitingCounts | None = None) -> None:
        """`waiting`: of the process; None: the dispatcher counts for itself what waits."""
        self._waiting = WaitingCounts() if waiting is None else waiting
        self._catalog = catalog
        self._fleet = fleet
        self._role = role
        self.choice, self._needs = WorkerChoice(catalog), Needs(catalog)
        # by id, a record not yet acknowledged (held, so that its id stays its own) and its handle in the loads. A send
        # that fails is repeated with the same record, reported to `on_undelivered`, or ends the process
        self._on_their_way: dict[int, tuple[Outgoing, Sent]] = {}

    def loads(self, plan: Plan, at_ms: int, tier: str = DEFAULT_TIER) -> FleetLoads:
        """The loads of all workers under the plan in force, for the decisions on one request of `tier`."""
        self._fleet.obey(plan)
        return FleetLoads(self._fleet, self._catalog, self._waiting, self._needs, at_ms, tier, plan)

    def send(
        self,
        plan: Plan,
        classified: ClassifiedRequest,
        placement: Placement,
        *,
        cause: Headers,
        path: tuple[Stage, ...] = (),
        attempt: int = 1,
    ) -> Outgoing:
        """The record of the placement's job, for the worker that the plan's dispatch names, or the variant's queue.

        `attempt`: number of owners that the job will have met, the next one included. Raises RecordTooLarge.
        """
        share = reuse_share(placement.level, self._catalog.level(placement.variant))
        job = placed_job(
            classified, placement, share, plan_version=plan.version, now_ms=now_ms(), path=path, attempt=attempt
        )
        if not holds(plan, self._waiting.count(job.variant)):
            selection = placement.options.components
            load = self.choose(plan, job, placement.run_ms, selection)
            if not isinstance(load, Retry):
                return self.record(job, load, placement.run_ms, selection, cause)
        record = waiting_record(job, cause, self._role, now_ms())
        LIMITS.check(record)  # what is never written must not be counted
        self._waiting.add(job.variant, 1)
        return record

    def send_back(self, plan: Plan, job: GenerateJob, not_on: str, cause: Headers) -> Outgoing:
        """The record of a job to be generated again, for another worker of its variant than `not_on` if there is one.

        Raises RecordTooLarge.
        """
        variant, at_ms = self._catalog.level(job.variant), now_ms()
        how = job_options(job, variant)
        again = dataclasses.replace(job, attempt=job.attempt + 1, routed_ms=at_ms, plan_version=plan.version)
        self._fleet.obey(plan)

        def choose(pool: WorkerPool) -> int | None:
            return elsewhere([worker.worker_id for worker in pool.workers], list(pool.free), not_on)

        load = self._fleet.choose(job.variant, at_ms, choose)
        assert not isinstance(load, Retry)
        return self.record(again, load, resolved_ms(variant, how), how.components, cause)

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """A job lies on its partition: heartbeats that have seen its offset count it from now on."""
        _, sent = self._on_their_way.pop(id(record), (None, None))
        if sent is not None:
            self._fleet.acknowledged(sent, delivered.offset)

    def on_undelivered(self, record: Outgoing) -> None:
        """A job will never lie on its partition: no later job waits behind it."""
        _, sent = self._on_their_way.pop(id(record), (None, None))
        if sent is not None:
            self._fleet.acknowledged(sent, NOWHERE)

    def choose(self, plan: Plan, job: GenerateJob, own_ms: float, components: Selection) -> Load | Retry | None:
        """Choose the worker of a job that is profiled at `own_ms` alone, by the plan's dispatch.

        None if no worker serves the variant. Retry: the job is to wait for an idle worker.
        """
        at_ms, need = now_ms(), self._need(job, components)
        self._fleet.obey(plan)

        def choose(pool: WorkerPool) -> int | Retry | None:
            cost = None
            if need is not None:
                cost = JobCost(pool.slowness * own_ms, lambda place: pool.lacking_ms(place, need))
            return self.choice.choose(plan, job.variant, job.classified.request.request_id, pool.free, at_ms, cost)

        return self._fleet.choose(job.variant, at_ms, choose)

    def record(
        self, job: GenerateJob, load: Load | None, own_ms: float, components: Selection, cause: Headers
    ) -> Outgoing:
        """The record of a job for its worker; without one for the variant's topic, where it waits for any worker.

        It counts for the worker from now on. Raises RecordTooLarge.
        """
        job = dataclasses.replace(job, worker_id=load.worker_id if load else "")
        record = job_record(job, load.partition if load else None, cause, self._role, now_ms())
        LIMITS.check(record)  # what is never written must not be remembered as on its way
        if load is None:
            metrics.FALLBACKS.labels(self._role, "no-owner").inc()
        else:
            self.choice.on_sent(job.variant)
            sent = self._fleet.sent(job.variant, load.partition, own_ms, now_ms(), self._need(job, components))
            self._on_their_way[id(record)] = record, sent
        return record

    def _need(self, job: GenerateJob, components: Selection) -> Need | None:
        return self._needs.of(job.variant, components) if components.base else None

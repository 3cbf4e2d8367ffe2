"""Writes jobs for the workers that get them, and counts what is on its way: for the router and the discriminator."""

import asyncio
from collections.abc import Iterable

from agents.runtime.records import job_record
from agents.runtime.views import FleetView
from planner.catalog.entries import reuse_share
from planner.catalog.model import Catalog
from planner.serving.dispatch.dispatch import JobCost, Retry, WorkerChoice
from planner.serving.dispatch.lacking import Need, Needs
from planner.serving.dispatch.worker_loads import Load, Sent, WorkerPool
from planner.serving.routing.placement import Placement
from schemas import ids
from schemas.messages import ClassifiedRequest, GenerateJob, Plan, Stage
from schemas.record import Delivered, Headers, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.kafka.producers.topic_limits import LIMITS

NOWHERE = -1  # an offset that every heartbeat has counted


class FleetLoads:
    """The loads of the workers at one moment, for the decisions on one request."""

    def __init__(self, fleet: FleetView, variants: Iterable[str], at_ms: int) -> None:
        self._fleet = fleet
        self._variants = variants
        self._at_ms = at_ms

    def wait_ms(self, variant: str) -> float:
        """Time until the least loaded worker of a variant is free; infinite where nobody serves it."""
        return self._fleet.wait_ms(variant, self._at_ms)

    def serving(self) -> int:
        """Number of workers that take new jobs, of all variants."""
        return self._fleet.serving(self._variants, self._at_ms)


class Dispatcher:
    """Knows the loads of all workers, its own sends included."""

    def __init__(self, catalog: Catalog, fleet: FleetView, role: str) -> None:
        self._catalog = catalog
        self._fleet = fleet
        self._role = role
        self._choice, self._needs = WorkerChoice(catalog), Needs(catalog)
        # by id, a record not yet acknowledged (held, so that its id stays its own) and its handle in the loads. A send
        # that fails is repeated with the same record, reported to `on_undelivered`, or ends the process
        self._on_their_way: dict[int, tuple[Outgoing, Sent]] = {}

    def loads(self, at_ms: int) -> FleetLoads:
        """The loads of all workers, for the decisions on one request."""
        return FleetLoads(self._fleet, self._catalog.served, at_ms)

    async def send(
        self,
        plan: Plan,
        classified: ClassifiedRequest,
        placement: Placement,
        *,
        cause: Headers,
        path: tuple[Stage, ...] = (),
        attempt: int = 1,
    ) -> Outgoing:
        """The record of the placement's job, for the worker that the plan's dispatch names.

        `attempt`: number of owners that the job will have met, the next one included. Raises RecordTooLarge.
        """
        selection = placement.options.components
        need = self._needs.of(placement.variant, selection) if selection.base else None
        load = await self._worker(plan, placement, need, classified.request.request_id)
        share = reuse_share(placement.level, self._catalog.level(placement.variant))
        job = GenerateJob(
            job_id=ids.job_id(classified.request.request_id, len(path), placement.level),
            classified=classified,
            level=placement.level,
            variant=placement.variant,
            stage=len(path),
            attempt=attempt,
            probability=placement.probability,
            plan_version=plan.version,
            worker_id=load.worker_id if load else "",
            routed_ms=now_ms(),
            path=path,
            overridden=placement.overridden,
            refine_from_step=0 if share else placement.options.refine_from_step,
            reuse_share=share,
        )
        return self._record(job, load, placement.run_ms, need, cause)

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """A job lies on its partition: heartbeats that have seen its offset count it from now on."""
        _, sent = self._on_their_way.pop(id(record), (None, None))
        if sent is not None:
            self._fleet.acknowledged(sent, delivered.offset)

    def on_undelivered(self, record: Outgoing) -> None:
        """A job will never lie on its partition: nobody has it before them."""
        _, sent = self._on_their_way.pop(id(record), (None, None))
        if sent is not None:
            self._fleet.acknowledged(sent, NOWHERE)

    async def _worker(self, plan: Plan, placement: Placement, need: Need | None, request_id: str) -> Load | None:
        """Choose the worker of a job; None when nobody serves the variant, so that the job waits on its topic."""
        while True:
            chosen = self._choose(plan, placement, need, request_id, now_ms())
            if chosen is None:
                metrics.FALLBACKS.labels(self._role, "no-owner").inc()
            if not isinstance(chosen, Retry):
                return chosen
            await asyncio.sleep(chosen.after_ms / 1000)

    def _choose(
        self, plan: Plan, placement: Placement, need: Need | None, request_id: str, at_ms: int
    ) -> Load | Retry | None:
        variant = placement.variant

        def choose(pool: WorkerPool) -> int | Retry | None:
            cost = None
            if need is not None:
                cost = JobCost(placement.run_ms, lambda place: pool.lacking_ms(place, need))
            return self._choice.choose(plan, variant, request_id, pool.free, at_ms, cost)

        return self._fleet.choose(variant, at_ms, choose)

    def _record(
        self, job: GenerateJob, load: Load | None, run_ms: float, need: Need | None, cause: Headers
    ) -> Outgoing:
        record = job_record(job, load.partition if load else None, cause, self._role, now_ms())
        LIMITS.check(record)  # what is never written must not be remembered as on its way
        if load is not None:
            self._choice.on_sent(job.variant)
            sent = self._fleet.sent(job.variant, load.partition, run_ms, now_ms(), need)
            self._on_their_way[id(record)] = record, sent
        return record

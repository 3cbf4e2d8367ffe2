"""Places a request on a level: the router's and the discriminator's shared hand, on top of `planner/` decisions."""

import asyncio
from collections import Counter

from agents.runtime.records import job_record
from agents.runtime.views import FleetView, Loads
from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.catalog.options import job_ms, settle
from planner.serving.dispatch import choose
from planner.serving.worker_loads import Load, Sent, shortest_ms
from schemas import ids
from schemas.messages import ClassifiedRequest, GenerateJob, PaintOptions, Plan, Step
from schemas.record import Delivered, Headers, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.kafka.topic_limits import LIMITS

NOWHERE = -1  # an offset that every heartbeat has counted
PULL_WAIT_S = 0.005  # how often a job that waits for an idle worker looks again


class Dispatcher:
    """Knows the loads of all workers, its own sends included."""

    def __init__(self, catalog: Catalog, fleet: FleetView, role: str) -> None:
        self._catalog = catalog
        self._fleet = fleet
        self._role = role
        self._sent_before: Counter[str] = Counter()
        # by id, a record not yet acknowledged (held, so that its id stays its own) and its handle in the loads. A send
        # that fails is repeated with the same record, told to `on_undelivered`, or ends the process
        self._on_their_way: dict[int, tuple[Outgoing, Sent]] = {}

    def look(self) -> Loads:
        """Who serves which level now, and what lies before them: one look a request."""
        return self._fleet.all_loads(self._catalog.variants, now_ms())

    async def place(
        self,
        plan: Plan,
        classified: ClassifiedRequest,
        level: str,
        *,
        probability: float,
        cause: Headers,
        path: tuple[Step, ...] = (),
        paint_over_step: int = 0,
        attempt: int = 1,
        seen: Loads | None = None,
    ) -> Outgoing:
        """The job's record, for the worker that the plan's dispatch names. `seen`: what `look` just told.

        `paint_over_step`: at which of the job's steps it begins, with the last picture of `path`; 0: on a blank.
        `attempt`: how many owners it will have met, the next one included. Raises RecordTooLarge.
        """
        load = await self._worker(plan, level, classified.request.request_id, (seen or {}).get(level))
        job = GenerateJob(
            job_id=ids.job_id(classified.request.request_id, len(path), level),
            classified=classified,
            level=level,
            variant=self._catalog.level(level).name,
            stage=len(path),
            attempt=attempt,
            probability=probability,
            plan_version=plan.version,
            worker_id=load.worker_id if load else "",
            routed_ms=now_ms(),
            path=path,
            overridden=settle(classified.request.options, self._catalog.level(level)).overridden,
            paint_over_step=paint_over_step,
        )
        return self._record(job, load, cause)

    def finish_in_ms(self, level: str, options: PaintOptions, paint_over_step: int = 0) -> float:
        """What a job sent to a level now would take until painted; infinite when nobody serves it."""
        variant = self._catalog.level(level)
        return shortest_ms(self._fleet.loads(variant.name, now_ms())) + job_ms(variant, options, paint_over_step)

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

    async def _worker(self, plan: Plan, level: str, request_id: str, seen: list[Load] | None) -> Load | None:
        """Who gets it; None when nobody serves the level, so that the job waits on its topic for a worker to come."""
        variant = self._catalog.level(level)
        loads = self._fleet.loads(variant.name, now_ms()) if seen is None else seen
        batch = plan.batch.get(variant.name, 1)
        while loads:
            load = choose(plan.dispatch, loads, request_id, self._sent_before[variant.name], run_ms(variant, 1), batch)
            if load is not None:
                return load
            await asyncio.sleep(PULL_WAIT_S)
            loads = self._fleet.loads(variant.name, now_ms())
        metrics.FALLBACKS.labels(self._role, "no-owner").inc()
        return None

    def _record(self, job: GenerateJob, load: Load | None, cause: Headers) -> Outgoing:
        record = job_record(job, load.partition if load else None, cause, self._role, now_ms())
        LIMITS.check(record)  # what is never written must not be remembered as on its way
        if load is not None:
            self._sent_before[job.variant] += 1
            took = job_ms(self._catalog.level(job.level), job.classified.request.options, job.paint_over_step)
            self._on_their_way[id(record)] = record, self._fleet.sent(job.variant, load.partition, took, now_ms())
        return record

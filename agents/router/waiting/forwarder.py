"""Forwards jobs that wait for an idle worker of their variant, once one is idle. `PullQueues` decides on them.

A thread beside the router, whose process the group of forwarders gives some variants' topics: one owner a variant, so
that it knows of every job that the variant's workers got by a plan that pulls.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, Protocol

from agents.router.dispatcher import Dispatcher
from agents.router.waiting.source import OnLost, WaitingSource
from agents.runtime.records import outcome_record, refused
from agents.runtime.views import EndedView, FleetView, PlanView, WaitingCounts
from planner.catalog.components import Selection
from planner.catalog.model import Catalog
from planner.catalog.options import job_options, resolved_ms
from planner.serving.decisions import Rejection
from planner.serving.dispatch.dispatch import RETRY_MS, Retry
from planner.serving.dispatch.waiting import Forward, PullQueues, Waiting
from planner.serving.dispatch.worker_loads import Load
from planner.serving.ending.outcomes import failed, too_late
from planner.serving.routing.cascades import judged_ms
from schemas.errors import InvalidRecord
from schemas.messages import GenerateJob, Plan
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.request_ids import request_id_of
from streams.kafka.producers.topic_limits import written
from streams.kafka.producers.writing import DeliveryFailed, RecordProducer
from streams.settings import Settings
from streams.tracing import spans

log = logging.getLogger(__name__)

ROLE, FORWARDER = "router", "forwarder"
MAX_JOBS = 500  # taken at once
MAX_WAITING = 10_000  # jobs of a variant that are queued here; more stay on the topic, urgent ones among them
IDLE_S = 0.1  # that a poll waits while no job waits for a worker
MAX_RETRY_MS = 20.0  # from one look for an idle worker to the next: heartbeats say when one is idle
DELIVERY_S = 120
HAND_OVER_S = 10.0  # for what is being written when a variant's topic goes to another process


class QueuedJob(NamedTuple):
    """A waiting job as it was read, and what a worker takes for it."""

    record: Incoming
    job: GenerateJob
    full_ms: float  # run time alone, without a stored latent
    components: Selection

    def own_ms(self, plan: Plan) -> float:
        """Mean run time in ms alone, where a stored latent saves some of its steps as often as the plan says."""
        hit_rate = plan.reuse.hits.get(self.job.level, 0.0) if plan.reuse is not None else 0.0
        return self.full_ms * (1.0 - hit_rate * self.job.reuse_share)


class Sending(NamedTuple):
    """What a waiting job has caused, on its way to the broker."""

    cause: Incoming
    records: Sequence[tuple[Outgoing, Future[Delivered]]]
    hop: spans.Hop | None = None


class Source(Protocol):
    """The part of `WaitingSource` that forwarding uses."""

    @property
    def paused(self) -> Collection[str]: ...

    def variant_of(self, record: Incoming) -> str: ...

    def take(self, most: int, timeout_s: float) -> Sequence[Incoming]: ...

    def went(self, record: Incoming) -> None: ...

    def commit(self) -> None: ...

    def pause(self, variant: str, *, is_paused: bool) -> None: ...

    def close(self) -> None: ...


class Forwarder:
    """Reads waiting jobs and forwards them. `run` blocks until `stopping` is set; one thread."""

    def __init__(
        self,
        catalog: Catalog,
        plans: PlanView,
        ended: EndedView,
        dispatcher: Dispatcher,
        producer: RecordProducer,
        counts: WaitingCounts,
        open_source: Callable[[OnLost], Source],
    ) -> None:
        self._catalog = catalog
        self._plans = plans
        self._ended = ended
        self._dispatcher = dispatcher
        self._producer = producer
        self._counts = counts
        self._open = open_source
        self._queues: PullQueues[QueuedJob] = PullQueues(ended)
        self._sending: list[Sending] = []

    def run(self, stopping: threading.Event) -> None:
        """Forward jobs until `stopping` is set; it may be run again.

        Raises:
            DeliveryFailed: a record was not written; its job is not committed, and taken again.
            KafkaException: what does not pass by itself.
            MembershipLost: only joining the group anew helps.
        """
        self.open()
        try:
            while not stopping.is_set():
                self.step()
        finally:
            self._source.close()

    def open(self) -> None:
        """Begin to read waiting jobs; `step` forwards them."""
        self._queues, self._sending = PullQueues(self._ended), []
        self._source = self._open(self._lose)

    def step(self) -> None:
        """Take what has come, forward what can go, and commit what has gone. Blocks for IDLE_S at most."""
        for record in self._source.take(MAX_JOBS, self._poll_timeout_s()):
            self._add(record)
        plan = self._plans.plan
        if plan is not None:
            for variant in self._queues.variants():
                self._forward(variant, plan)
        self._confirm()
        self._source.commit()
        self._limit()

    def _poll_timeout_s(self) -> float:
        if self._sending:
            return RETRY_MS / 1000
        if not self._queues.variants():
            return IDLE_S
        return min(max(RETRY_MS, self._queues.idle_in_ms()), MAX_RETRY_MS) / 1000

    def _add(self, record: Incoming) -> None:
        try:
            job = decode(record.value, GenerateJob)
            if job.variant != self._source.variant_of(record):
                raise InvalidRecord(f"a job of {job.variant!r:.80} lies on {record.topic}; write it to its own topic")
            request = job.classified.request
            variant = self._catalog.level(job.variant)
            how = job_options(job, variant)
            queued = QueuedJob(record, job, resolved_ms(variant, how), how.components)
            waiting = Waiting(queued, request.request_id, request.tier, request.deadline_ms, self._min_run_ms(queued))
        except Exception as error:  # one job that cannot be read must not keep those behind it
            self._refuse(record, error)
            return
        self._queues.add(job.variant, waiting)

    def _min_run_ms(self, queued: QueuedJob) -> float:
        job, plan = queued.job, self._plans.plan
        judging_ms = judged_ms(plan, job.classified, job.level, self._catalog) if plan is not None else 0.0
        return queued.full_ms * (1.0 - job.reuse_share) + judging_ms

    def _refuse(self, record: Incoming, error: Exception) -> None:
        log.exception("a waiting job cannot be forwarded", exc_info=error)
        outcome = failed(request_id_of(record), reason=str(error), by=ROLE, now_ms=now_ms())
        self._send(record, refused(record, outcome, error, now_ms()))

    def _forward(self, variant: str, plan: Plan) -> None:
        def choose(waiting: Waiting[QueuedJob]) -> Load | Retry | None:
            queued = waiting.job
            return self._dispatcher.choose(plan, queued.job, queued.own_ms(plan), queued.components)

        call = self._dispatcher.choice.call(plan, variant)
        for waiting, decision in self._queues.forward(variant, plan, now_ms(), choose, call):
            queued, headers = waiting.job, waiting.job.record.headers
            self._counts.add(variant, -1)
            match decision:
                case Forward():
                    self._send_job(queued, decision.worker, plan)
                case Rejection():
                    outcome = too_late(queued.job, reason=decision.reason, by=ROLE, now_ms=now_ms())
                    self._send(queued.record, [outcome_record(outcome, headers, now_ms())])
                case _:
                    metrics.DEAD_WORK.labels(ROLE).inc()
                    self._source.went(queued.record)

    def _send_job(self, queued: QueuedJob, load: Load | None, plan: Plan) -> None:
        hop, headers = spans.begin(FORWARDER, [queued.record]), queued.record.headers
        try:
            with spans.within(hop):
                record = self._dispatcher.record(queued.job, load, queued.own_ms(plan), queued.components, headers)
        except Exception as error:  # too large by the worker's name, or a topic that takes less by now
            self._refuse(queued.record, error)
            return
        self._send(queued.record, [record], hop)

    def _send(self, cause: Incoming, records: Sequence[Outgoing], hop: spans.Hop | None = None) -> None:
        self._sending.append(Sending(cause, [(record, self._producer.send(record)) for record in records], hop))

    def _confirm(self) -> None:
        """Note what the broker has. Raises DeliveryFailed for what it did not take."""
        sending, self._sending = self._sending, []
        for nth, each in enumerate(sending):
            if not all(future.done() for _, future in each.records):
                self._sending.append(each)
                continue
            try:
                self._on_written(each, DELIVERY_S)
            except DeliveryFailed:
                self._sending += sending[nth + 1 :]  # they may be there: reported when the source is closed
                raise

    def _on_written(self, sending: Sending, limit_s: float) -> None:
        for record, future in sending.records:
            self._dispatcher.on_delivered(record, written(self._producer, record, future, limit_s))
        spans.end(sending.hop, [record for record, _ in sending.records])
        self._source.went(sending.cause)

    def _lose(self, variant: str, partitions: Collection[int]) -> None:
        """Report what is written of the partitions that another member gets, and forget the rest of their jobs."""

        def is_lost(record: Incoming) -> bool:
            return record.partition in partitions and self._source.variant_of(record) == variant

        lost = [each for each in self._sending if is_lost(each.cause)]
        self._sending = [each for each in self._sending if not is_lost(each.cause)]
        for each in lost:
            with contextlib.suppress(DeliveryFailed):  # it is not committed, and the next owner forwards it
                self._on_written(each, HAND_OVER_S)
        self._queues.remove(variant, lambda queued: is_lost(queued.record))

    def _limit(self) -> None:
        """Leave jobs on their topic beyond MAX_WAITING, and take them again below half of it."""
        paused = self._source.paused
        for variant in self._queues.variants() if not paused else {*self._queues.variants(), *paused}:
            count, is_paused = self._queues.count(variant), variant in paused
            if is_paused and count < MAX_WAITING // 2:
                self._source.pause(variant, is_paused=False)
            elif not is_paused and count > MAX_WAITING:
                self._source.pause(variant, is_paused=True)
                metrics.FALLBACKS.labels(ROLE, "waiting-full").inc()


def forwarder_of(
    settings: Settings, catalog: Catalog, producer: RecordProducer, plans: PlanView, ended: EndedView, fleet: FleetView,
    counts: WaitingCounts,
) -> Forwarder:  # fmt: skip
    """The one of a router's process."""
    dispatcher = Dispatcher(catalog, fleet, ROLE, counts)
    open_source = partial(WaitingSource, settings, sorted(catalog.served))
    return Forwarder(catalog, plans, ended, dispatcher, producer, counts, open_source)

"""What becomes of one job that lies on the topic of a variant which nobody serves any more."""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from agents.router.dispatcher import Dispatcher
from agents.runtime.records import event_record, outcome_record, refused
from agents.runtime.views import EndedView
from agents.worker.jobs import Taken
from planner.catalog.parse import Catalog
from planner.serving.escalation import Keep
from planner.serving.outcomes import failed, kept_draft, turned_away
from planner.serving.placement import Place
from planner.serving.reroute import rerouted
from planner.serving.worker_loads import shortest_ms
from schemas.messages import GenerateJob, Plan
from schemas.record import Outgoing
from streams import metrics
from streams.codec.avro import decode
from streams.codec.requests import request_id_of
from streams.kafka.consumer import now_ms
from streams.kafka.producer import RecordProducer
from streams.kafka.topic_limits import written

log = logging.getLogger(__name__)

ROLE = "router"
WAITS = "wait for the model that they name"
DELIVERY_S = 120


class Answer(NamedTuple):
    """What becomes of a job, in words, and the records that make it so."""

    told: str
    records: tuple[Outgoing, ...] = ()


class Rerouting:
    """Answers jobs by the plan in force, as the router answers requests; one that waits stays where it is."""

    def __init__(self, catalog: Catalog, ended: EndedView, dispatcher: Dispatcher, producer: RecordProducer) -> None:
        self._catalog, self._ended, self._dispatcher, self._producer = catalog, ended, dispatcher, producer

    def serve(self, jobs: Sequence[Taken], plan: Plan) -> list[str]:
        """What became of each, in words, when all that this takes is acknowledged. Blocks."""
        answers = asyncio.run(self._answers(jobs, plan))
        sent = [(record, self._producer.send(record)) for answer in answers for record in answer.records]
        for record, future in sent:
            self._dispatcher.on_delivered(record, written(self._producer, record, future, DELIVERY_S))
        return [answer.told for answer in answers]

    async def _answers(self, jobs: Sequence[Taken], plan: Plan) -> list[Answer]:
        return [await self._answer_or_fail(taken, plan) for taken in jobs]

    async def _answer_or_fail(self, taken: Taken, plan: Plan) -> Answer:
        record = taken.record
        try:
            return await self._answer(taken, decode(record.value, GenerateJob), plan)
        except Exception as error:  # one job that cannot be answered must not keep those behind it
            log.exception("a stranded job cannot be re-routed")
            outcome = failed(request_id_of(record), reason=str(error), by=ROLE, now_ms=now_ms())
            return Answer("failed", tuple(refused(record, outcome, error, now_ms())))

    async def _answer(self, taken: Taken, job: GenerateJob, plan: Plan) -> Answer:
        classified, headers = job.classified, taken.record.headers
        if taken.has_ended or classified.request.request_id in self._ended:
            metrics.DEAD_WORK.labels(ROLE).inc()
            return Answer("had ended")
        seen = self._dispatcher.look()
        waits_ms = {level: shortest_ms(loads) for level, loads in seen.items()}
        fate = rerouted(plan, job, self._catalog, waits_ms, now_ms())
        if fate is None:
            return Answer(WAITS)
        metrics.FALLBACKS.labels(ROLE, "stranded").inc()
        if isinstance(fate, Keep):
            outcome = kept_draft(job, reason=fate.reason, by=ROLE, now_ms=now_ms())
            return Answer("kept their draft", (outcome_record(outcome, headers, now_ms()),))
        if not isinstance(fate, Place):
            outcome = turned_away(fate, classified, by=ROLE, policy=plan.policy, now_ms=now_ms())
            return Answer(outcome.status.lower(), (outcome_record(outcome, headers, now_ms()),))
        placed = await self._dispatcher.place(
            plan, classified, fate.level, probability=fate.probability, cause=headers, seen=seen,
            attempt=max(taken.attempt, job.attempt),
        )  # fmt: skip
        detail = {"from": job.level, "to": fate.level, "reason": f"nobody serves {job.variant} any more"}
        note = event_record(classified.request.request_id, "rerouted", ROLE, now_ms(), **detail)
        return Answer(f"to {fate.level}", (placed, note))

"""The discriminator: `images` -> an outcome, or the request again as a job on the next level.

The decisions are those of `planner.serving.routing.escalation`.
"""

import asyncio
import dataclasses
import io
import logging
import math
import time
from collections.abc import Mapping, Sequence

import tenacity
from PIL import Image

from agents.discriminator.fact_sample import FactSample
from agents.discriminator.scorers import Scorer
from agents.router.dispatcher import Dispatcher
from agents.runtime.records import event_record, outcome_record, refused
from agents.runtime.views import EndedView, PlanView
from planner.serving.backoff import MAX_RETRY_S, RETRY_S
from planner.serving.ending.outcomes import completed, failed, step_of
from planner.serving.routing.escalation import Escalate, EscalationLogic, Keep, Score
from planner.serving.routing.placement import Placement
from planner.serving.unreadable import SENDS, Then, pause_ms, then
from schemas import topics
from schemas.messages import EventKind, GenerateRequest, ImageGenerated, Plan, Stage
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.request_ids import request_id_of
from streams.store.port import ImageStore, StoreUnavailable, Unreadable
from streams.tracing import conventions as names
from streams.tracing import spans

log = logging.getLogger(__name__)


class Discriminator:
    """`StreamLogic` of the discriminator: an image is decided by the plan in force when its scoring begins."""

    role = "discriminator"
    source = topics.IMAGES

    def __init__(
        self,
        logic: EscalationLogic,
        plans: PlanView,
        ended: EndedView,
        dispatcher: Dispatcher,
        store: ImageStore,
        scorers: Mapping[str, Scorer],
        sample: FactSample | None = None,
        max_attempts: int = SENDS,
    ) -> None:
        """`sample`: of kept images, whose facts are checked beside; None: nobody checks any.

        `max_attempts`: of a job, as workers have it.
        """
        self._sample = sample
        self._max_attempts = max_attempts
        self._logic = logic
        self._plans = plans
        self._ended = ended
        self._dispatcher = dispatcher
        self._store = store
        self._scorers = scorers

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """An outcome, an escalation, or nothing for a request that has ended; of an image that cannot be read, itself.

        Raises:
            Unreadable: it cannot be read, and its job was sent back before.
        """
        image = decode(record.value, ImageGenerated)
        request = image.job.classified.request
        if request.request_id in self._ended:
            metrics.DEAD_WORK.labels(self.role).inc()
            return []
        plan = await self._plans.in_force()
        decision: Keep | Score | Escalate = self._logic.examine(plan, _judged_level(image), request)
        confidence: float | None = None
        scored_by = ""
        if isinstance(decision, Score):
            scored_by = decision.discriminator
            begun_ms = now_ms()
            try:
                confidence = await self._score(image, scored_by)
            except Unreadable as error:
                return [await self._retried(plan, image, record, error)]
            if spans.recorder is not None:
                facts = {names.EVALUATION: scored_by, names.SCORE: confidence}
                spans.note(self.role, [record], f"score {scored_by}", begun_ms, now_ms(), facts)
            decision = self._decide(plan, decision, image, confidence)
        stage = step_of(image, confidence, decision.threshold, scored_by)
        fate = "escalated" if isinstance(decision, Escalate) else "kept"
        metrics.ESCALATIONS.labels(image.job.level, fate).inc()
        if isinstance(decision, Escalate):
            return self._escalated(plan, image, stage, decision, record)
        return [self._completed(plan, image, stage, decision, record)]

    async def _retried(self, plan: Plan, image: ImageGenerated, record: Incoming, error: Unreadable) -> Outgoing:
        """The image's own record, to be read again behind those that wait, or its job, to be generated again."""
        at_ms, deadline_ms = now_ms(), image.job.classified.request.deadline_ms
        age_ms = at_ms - image.stored_ms
        left_ms = math.inf if deadline_ms is None else deadline_ms - at_ms
        decision = then(age_ms, left_ms, image.job.attempt, self._max_attempts)
        if decision is Then.FAIL:
            raise error
        metrics.FALLBACKS.labels(self.role, decision.value).inc()
        if decision is Then.SEND_BACK:
            log.warning("%s; its job is generated again", error)
            return self._dispatcher.send_back(plan, image.job, image.worker_id, record.headers)
        await asyncio.sleep(pause_ms(age_ms) / 1000)
        return Outgoing(topic=record.topic, key=record.key, value=record.value, headers=record.headers)

    def _decide(self, plan: Plan, asked: Score, image: ImageGenerated, confidence: float) -> Keep | Escalate:
        at_ms = now_ms()
        loads = self._dispatcher.loads(plan, at_ms)
        sizes = [(each.width, each.height) for each in (image.image, *image.more)]
        return self._logic.decide(asked, image.job.classified, sizes, confidence, loads, at_ms)

    def _completed(self, plan: Plan, image: ImageGenerated, stage: Stage, decision: Keep, record: Incoming) -> Outgoing:
        if self._sample is not None:
            self._sample.offer(image)
        at_ms = now_ms()
        if decision.overridden:
            job = dataclasses.replace(image.job, overridden=(*image.job.overridden, *decision.overridden))
            image = dataclasses.replace(image, job=job)
        outcome = completed(
            image, stage.confidence, decision.threshold, reason=decision.reason, by=self.role, policy=plan.policy,
            now_ms=at_ms, discriminator=stage.discriminator,
        )  # fmt: skip
        return outcome_record(outcome, record.headers, at_ms)

    def _escalated(
        self, plan: Plan, image: ImageGenerated, stage: Stage, decision: Escalate, record: Incoming
    ) -> Sequence[Outgoing]:
        """The request as a job on the next level; the draft stays on its path and is shown as a preview."""
        job, how = image.job, decision.how
        path = (*job.path, stage)
        placement = Placement(decision.next_level, how.variant, how.options, how.run_ms, job.probability)
        placed = self._dispatcher.send(plan, job.classified, placement, cause=record.headers, path=path)
        request = job.classified.request
        detail = {
            "from": job.level, "to": decision.next_level, "preview": image.image.uri, "paint_over_step": how.from_step,
            "tenant": request.tenant,
        }  # fmt: skip
        note = event_record(request.request_id, EventKind.ESCALATED, self.role, now_ms(), **detail)
        return [placed, note]

    async def _score(self, image: ImageGenerated, discriminator: str) -> float:
        """The confidence in the worst of the request's images."""
        request, scorer = image.job.classified.request, self._scorers[discriminator]
        begun_s = time.monotonic()
        confidences = [
            await asyncio.to_thread(self._score_one, each.uri, request, scorer) for each in (image.image, *image.more)
        ]
        metrics.SCORING_SECONDS.labels(discriminator).observe(time.monotonic() - begun_s)
        return min(confidences)

    def _score_one(self, uri: str, request: GenerateRequest, scorer: Scorer) -> float:
        with Image.open(io.BytesIO(self._fetch(uri))) as opened:
            return scorer.score(request, opened.convert("RGB"))

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(StoreUnavailable),
        wait=tenacity.wait_exponential(RETRY_S, max=MAX_RETRY_S),
    )  # an outage of the store is waited out in place
    def _fetch(self, uri: str) -> bytes:
        return self._store.get(uri)

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Report the offset of a delivered job to the dispatcher."""
        self._dispatcher.on_delivered(record, delivered)

    def on_undelivered(self, record: Outgoing) -> None:
        """Nobody has its job before them."""
        self._dispatcher.on_undelivered(record)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """An image that cannot be judged at all ends its request as FAILED."""
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms())
        return refused(record, outcome, error, now_ms())


def _judged_level(image: ImageGenerated) -> str:
    """Return the level of its job, such as "heavy~k4", if it began from a stored latent.

    One that found no latent was generated in full, as the images of the variant are.
    """
    has_begun = image.reuse is not None and image.reuse.step > 0
    return image.job.level if has_begun else image.job.variant

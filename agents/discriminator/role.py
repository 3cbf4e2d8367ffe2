"""The discriminator: `images` -> an outcome, or the same request again as a job on the next level."""

import asyncio
import io
import math
from collections.abc import Sequence

import tenacity
from PIL import Image

from agents.discriminator.scorers import Scorer
from agents.router.dispatcher import Dispatcher
from agents.runtime.records import event_record, outcome_record, refused
from agents.runtime.views import EndedView, PlanView
from planner.catalog.options import begins_at, settle
from planner.catalog.parse import Catalog
from planner.serving.backoff import MAX_RETRY_S, RETRY_S
from planner.serving.escalation import Escalate, Keep, Verdict, cascade_of, judge, judged_ms, may_escalate
from planner.serving.outcomes import completed, failed, step_of
from schemas import topics
from schemas.messages import Cascade, GenerateRequest, ImageGenerated, Plan
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.requests import request_id_of
from streams.store.port import ImageStore, StoreUnavailable

KEPT_AS_ASKED = "kept as it is: the request asked for this level"


class Discriminator:
    """`StreamLogic` of the discriminator: the threshold is that of the plan in force when it scores."""

    role = "discriminator"
    source = topics.IMAGES

    def __init__(
        self,
        catalog: Catalog,
        plans: PlanView,
        ended: EndedView,
        dispatcher: Dispatcher,
        store: ImageStore,
        scorers: dict[str, Scorer],
    ) -> None:
        self._catalog = catalog
        self._plans = plans
        self._ended = ended
        self._dispatcher = dispatcher
        self._store = store
        self._scorers = scorers

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """An outcome, an escalation, or nothing for a request that has ended."""
        image = decode(record.value, ImageGenerated)
        request = image.job.classified.request
        if request.request_id in self._ended:
            metrics.DEAD_WORK.labels(self.role).inc()
            return []
        plan = await self._plans.in_force()
        cascade = cascade_of(plan, image.job.level)
        confidence: float | None = None
        verdict: Verdict = Keep(None, KEPT_AS_ASKED)
        step = 0 if cascade is None else self._begins_at(cascade, image)
        if cascade is None or may_escalate(image.job.classified, self._catalog):
            next_ms = math.inf
            if cascade is not None:
                confidence = await self._score(image, cascade.discriminator)
                next_ms = self._next_ms(plan, image, cascade.next_level, step)
            verdict = judge(plan, image.job.level, confidence, request.deadline_ms, now_ms(), next_ms)
        if isinstance(verdict, Escalate):
            return await self._escalated(plan, image, confidence, verdict, step, record)
        outcome = completed(
            image, confidence, verdict.threshold, reason=verdict.reason, by=self.role, policy=plan.policy,
            now_ms=now_ms(),
        )  # fmt: skip
        return [outcome_record(outcome, record.headers, now_ms())]

    async def _escalated(
        self,
        plan: Plan,
        image: ImageGenerated,
        confidence: float | None,
        verdict: Escalate,
        step: int,
        record: Incoming,
    ) -> Sequence[Outgoing]:
        """The same request as a job on the next level; the draft stays on its path and is shown as a preview."""
        job = image.job
        path = (*job.path, step_of(image, confidence, verdict.threshold))
        placed = await self._dispatcher.place(
            plan, job.classified, verdict.next_level, probability=job.probability, cause=record.headers, path=path,
            paint_over_step=step,
        )  # fmt: skip
        detail = {
            "from": job.level, "to": verdict.next_level, "preview": image.image.uri, "paint_over_step": step
        }  # fmt: skip
        note = event_record(job.classified.request.request_id, "escalated", self.role, now_ms(), **detail)
        return [placed, note]

    def _next_ms(self, plan: Plan, image: ImageGenerated, level: str, step: int) -> float:
        """What the request would take on the next level, until it is painted and judged there."""
        classified = image.job.classified
        painted_ms = self._dispatcher.finish_in_ms(level, classified.request.options, step)
        return painted_ms + judged_ms(plan, classified, level, self._catalog)

    def _begins_at(self, cascade: Cascade, image: ImageGenerated) -> int:
        """The step of the next level from which it would paint over this picture; 0: on a blank."""
        variant = self._catalog.level(cascade.next_level)
        how = settle(image.job.classified.request.options, variant)
        return begins_at(cascade.paint_over_step, variant, how, (image.image, *image.more))

    async def _score(self, image: ImageGenerated, discriminator: str) -> float:
        """The confidence in the worst of the request's pictures."""
        request, scorer = image.job.classified.request, self._scorers[discriminator]
        return min(
            [await asyncio.to_thread(self._score_one, each.uri, request, scorer) for each in (image.image, *image.more)]
        )

    def _score_one(self, uri: str, request: GenerateRequest, scorer: Scorer) -> float:
        with Image.open(io.BytesIO(self._fetch(uri))) as picture:
            return scorer.score(request, picture.convert("RGB"))

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(StoreUnavailable),
        wait=tenacity.wait_exponential(RETRY_S, max=MAX_RETRY_S),
    )  # an outage of the store is waited out in place
    def _fetch(self, uri: str) -> bytes:
        return self._store.get(uri)

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Tell the dispatcher where its jobs lie."""
        self._dispatcher.on_delivered(record, delivered)

    def on_undelivered(self, record: Outgoing) -> None:
        """Nobody has its job before them."""
        self._dispatcher.on_undelivered(record)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """A picture that cannot be judged at all ends its request as FAILED."""
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms())
        return refused(record, outcome, error, now_ms())

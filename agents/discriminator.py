"""The discriminator: `images` -> an outcome, or the same request again as a job on the next level."""

import asyncio
import io
import math
from collections.abc import Sequence

import tenacity
from PIL import Image

from agents.dispatching import Dispatcher
from agents.scoring import Scorer
from agents.views import EndedView, PlanView
from agents.writing import event_record, outcome_record, refused
from planner.escalation import Escalate, cascade_of, judge
from planner.outcomes import completed, failed, step_of
from schemas import topics
from schemas.messages import ImageGenerated, Plan
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.codec import decode
from streams.reading import now_ms
from streams.request_codec import request_id_of
from streams.store import ImageStore, StoreUnavailable


class Discriminator:
    """`StreamLogic` of the discriminator: the threshold is that of the plan in force when it scores."""

    role = "discriminator"
    source = topics.IMAGES

    def __init__(
        self, plans: PlanView, ended: EndedView, dispatcher: Dispatcher, store: ImageStore, scorers: dict[str, Scorer]
    ) -> None:
        self._plans, self._ended, self._dispatcher = plans, ended, dispatcher
        self._store, self._scorers = store, scorers

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """An outcome, an escalation, or nothing for a request that has ended."""
        image = decode(record.value, ImageGenerated)
        request = image.job.classified.request
        if request.request_id in self._ended:
            metrics.DEAD_WORK.labels(self.role).inc()
            return []
        plan = await self._plans.in_force()
        cascade = cascade_of(plan, image.job.level)
        confidence, next_ms = None, math.inf
        if cascade is not None:
            confidence = await self._score(image, cascade.discriminator)
            next_ms = self._dispatcher.wait_and_run_ms(cascade.next_level)
        verdict = judge(plan, image.job.level, confidence, request.deadline_ms, now_ms(), next_ms)
        if isinstance(verdict, Escalate):
            return await self._escalated(plan, image, confidence, verdict, record)
        outcome = completed(
            image, confidence, verdict.threshold, reason=verdict.reason, by=self.role, policy=plan.policy,
            now_ms=now_ms(),
        )  # fmt: skip
        return [outcome_record(outcome, record.headers, now_ms())]

    async def _escalated(
        self, plan: Plan, image: ImageGenerated, confidence: float | None, verdict: Escalate, record: Incoming
    ) -> Sequence[Outgoing]:
        """The same request as a job on the next level; the draft stays on its path and is shown as a preview."""
        job = image.job
        path = (*job.path, step_of(image, confidence, verdict.threshold))
        placed = await self._dispatcher.place(
            plan, job.classified, verdict.next_level, probability=job.probability, cause=record.headers, path=path
        )
        detail = {"from": job.level, "to": verdict.next_level, "preview": image.image.uri}
        note = event_record(job.classified.request.request_id, "escalated", self.role, now_ms(), **detail)
        return [placed, note]

    async def _score(self, image: ImageGenerated, discriminator: str) -> float:
        scorer = self._scorers[discriminator]
        data = await asyncio.to_thread(self._fetch, image.image.uri)
        with Image.open(io.BytesIO(data)) as picture:
            return await asyncio.to_thread(scorer.score, image.job.classified.request, picture.convert("RGB"))

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(StoreUnavailable), wait=tenacity.wait_exponential(0.1, max=5)
    )  # an outage of the store is waited out in place
    def _fetch(self, uri: str) -> bytes:
        return self._store.get(uri)

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Tell the dispatcher where its jobs lie."""
        self._dispatcher.on_delivered(record, delivered)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """A picture that cannot be judged at all ends its request as FAILED."""
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms())
        return refused(record, outcome, error, now_ms())

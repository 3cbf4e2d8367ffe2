"""The discriminator: `images` -> an outcome, or the request again as a job on the next level.

It carries out what `planner.serving.judging.judging.DiscriminatorLogic` decides.
"""

import asyncio
import dataclasses
import logging
import math
from collections.abc import Container, Mapping, Sequence
from typing import assert_never

from agents.discriminator.batches import MOST, Batches, Judged
from agents.discriminator.fact_sample import FactSample
from agents.discriminator.scorers import Scorer
from agents.judges import JudgeAway, JudgeFailed
from agents.router.dispatcher import Dispatcher, FleetLoads
from agents.runtime.records import event_record, outcome_record, refused
from agents.runtime.views import PlanView
from planner.serving.ending.outcomes import completed, failed, step_of
from planner.serving.judging.judging import (
    Ask,
    DiscriminatorLogic,
    Drop,
    Effect,
    End,
    Fail,
    ReadAgain,
    SendBack,
    SendOn,
    Wait,
)
from planner.serving.routing.escalation import EscalationLogic, Size
from planner.serving.routing.placement import Placement
from planner.serving.unreadable import SENDS, Then
from schemas import topics
from schemas.messages import EventKind, GenerateJob, ImageGenerated, Plan
from schemas.record import Delivered, Incoming, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.request_ids import request_id_of
from streams.store.port import ImageStore, StoreUnavailable, Unreadable
from streams.tracing import conventions as names
from streams.tracing import spans

log = logging.getLogger(__name__)


class ImageWork:
    """What `DiscriminatorLogic` asks of live images."""

    def __init__(self, ended: Container[str], dispatcher: Dispatcher) -> None:
        self._ended, self._dispatcher = ended, dispatcher

    def job(self, image: ImageGenerated) -> GenerateJob:
        """Return the image's job."""
        return image.job

    def has_ended(self, image: ImageGenerated) -> bool:
        """Whether the request has its result."""
        return image.job.classified.request.request_id in self._ended

    def began_from_latent(self, image: ImageGenerated) -> bool:
        """Whether the image was begun from a stored latent."""
        return image.reuse is not None and image.reuse.step > 0

    def refined_a_draft(self, image: ImageGenerated) -> bool:
        """Whether the image was begun from the draft that it replaces."""
        return image.refine_from_step > 0 and image.job.stage > 0

    def sizes(self, image: ImageGenerated) -> Sequence[Size]:
        """Return the width and height of each image of the job."""
        return [(each.width, each.height) for each in (image.image, *image.more)]

    def loads(self, plan: Plan, now_ms: float, tier: str) -> FleetLoads:
        """Return the loads of all workers under a plan, for a request of `tier`."""
        return self._dispatcher.loads(plan, int(now_ms), tier)


class Discriminator:
    """`StreamLogic` of the discriminator: an image is decided by the plan in force when its scoring begins."""

    role = "discriminator"
    source = topics.IMAGES
    ahead = 2 * MOST  # records: while one batch is judged, the next one comes together

    def __init__(
        self,
        logic: EscalationLogic,
        plans: PlanView,
        ended: Container[str],
        dispatcher: Dispatcher,
        store: ImageStore,
        scorers: Mapping[str, Scorer],
        sample: FactSample | None = None,
        max_attempts: int = SENDS,
    ) -> None:
        """`sample`: of kept images, whose facts are checked beside; None: none are checked.

        `max_attempts`: of a job, as workers have it.
        """
        self.logic = DiscriminatorLogic[ImageGenerated](logic, ImageWork(ended, dispatcher), max_attempts)
        self._sample = sample
        self._plans = plans
        self._dispatcher = dispatcher
        self._batches = Batches(store, scorers)
        # place of a record -> its score by a discriminator; None: nothing was asked of it when it was seen first
        self._ahead: dict[tuple[int, int], tuple[str, asyncio.Future[Judged]] | None] = {}

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        """An outcome, an escalation, or nothing for a request that has ended; of an image that cannot be read, itself.

        Raises:
            Unreadable: it cannot be read, and its job was sent back before.
        """
        image = decode(record.value, ImageGenerated)
        effect: Effect[ImageGenerated] = self.logic.on_image(image, await self._plans.in_force())
        while True:
            match effect:
                case Ask():
                    effect = await self._judged(effect, record)
                case Wait(ask, ms):
                    await asyncio.sleep(ms / 1000)
                    effect = ask
                case ReadAgain(_, ms):
                    metrics.FALLBACKS.labels(self.role, Then.READ_AGAIN.value).inc()
                    await asyncio.sleep(ms / 1000)
                    return [Outgoing(topic=record.topic, key=record.key, value=record.value, headers=record.headers)]
                case SendBack(_, plan, error):
                    metrics.FALLBACKS.labels(self.role, Then.SEND_BACK.value).inc()
                    log.warning("%s; its job is generated again", error)
                    return [self._dispatcher.send_back(plan, image.job, image.worker_id, record.headers)]
                case Fail(_, error):
                    raise error
                case Drop():
                    metrics.DEAD_WORK.labels(self.role).inc()
                    return []
                case End():
                    return [self._completed(effect, record)]
                case SendOn():
                    return self._escalated(effect, record)
                case _:
                    assert_never(effect)

    def look_ahead(self, records: Sequence[Incoming]) -> None:
        """Begin to score the images of records that come next; each is decided in its turn, by the plan then."""
        known, self._ahead, plan = self._ahead, {}, self._plans.plan
        for record in records:
            place = record.partition, record.offset
            if place in known:
                self._ahead[place] = known[place]
            elif plan is not None:
                ask = self._asked(record, plan)
                name = ask.asked.discriminator if ask else ""
                self._ahead[place] = (name, self._batches.submit(name, ask.image)) if ask else None

    def _asked(self, record: Incoming, plan: Plan) -> Ask[ImageGenerated] | None:
        """Return what would be asked of a record now; None if nothing is, or it cannot be read."""
        try:
            first = self.logic.on_image(decode(record.value, ImageGenerated), plan)
        except Exception:  # `on_record` says what is wrong
            return None
        return first if isinstance(first, Ask) else None

    async def _judged(self, ask: Ask[ImageGenerated], record: Incoming) -> Effect[ImageGenerated]:
        """Score the images of a job, or take what was scored ahead; return what the machine asks for next."""
        image, discriminator = ask.image, ask.asked.discriminator
        name, answer = self._ahead.pop((record.partition, record.offset), None) or ("", None)
        if answer is None or name != discriminator:
            answer = self._batches.submit(discriminator, image)
        try:
            judged = await answer
        except StoreUnavailable:
            return self.logic.on_away(ask)
        except JudgeAway as error:
            metrics.FALLBACKS.labels(self.role, "judge-away").inc()
            log.warning("%s; its images wait", error)
            return self.logic.on_away(ask)
        except JudgeFailed as error:
            metrics.FALLBACKS.labels(self.role, "judge-failed").inc()
            log.warning("%s; the image counts as not good enough", error)
            judged = Judged(math.nan, now_ms(), now_ms())
        except Unreadable as error:
            return self.logic.on_unreadable(ask, error, image.stored_ms, now_ms())
        if spans.recorder is not None:
            facts = {names.EVALUATION: discriminator, names.SCORE: judged.confidence}
            spans.note(self.role, [record], f"score {discriminator}", judged.begun_ms, judged.ended_ms, facts)
        return self.logic.on_scored(ask, judged.confidence, now_ms())

    def _completed(self, end: End[ImageGenerated], record: Incoming) -> Outgoing:
        image, decision, at_ms = end.image, end.decision, now_ms()
        metrics.ESCALATIONS.labels(image.job.level, "kept").inc()
        if self._sample is not None:
            self._sample.offer(image)
        if decision.overridden:
            job = dataclasses.replace(image.job, overridden=(*image.job.overridden, *decision.overridden))
            image = dataclasses.replace(image, job=job)
        outcome = completed(
            image, end.confidence, decision.threshold, reason=decision.reason, by=self.role, policy=end.plan.policy,
            now_ms=at_ms, discriminator=end.discriminator, promise=decision.promise,
        )  # fmt: skip
        return outcome_record(outcome, record.headers, at_ms)

    def _escalated(self, sent: SendOn[ImageGenerated], record: Incoming) -> Sequence[Outgoing]:
        """The request as a job on the next level; the draft stays on its path and is shown as a preview."""
        image, asked, decision, confidence = sent
        job, how = image.job, decision.how
        metrics.ESCALATIONS.labels(job.level, "escalated").inc()
        path = (*job.path, step_of(image, confidence, decision.threshold, asked.discriminator))
        placement = Placement(decision.next_level, how.variant, how.options, how.run_ms, job.probability)
        placed = self._dispatcher.send(asked.plan, job.classified, placement, cause=record.headers, path=path)
        request = job.classified.request
        detail = {
            "from": job.level, "to": decision.next_level, "preview": image.image.uri, "paint_over_step": how.from_step,
            "tenant": request.tenant,
        }  # fmt: skip
        note = event_record(request.request_id, EventKind.ESCALATED, self.role, now_ms(), **detail)
        return [placed, note]

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        """Report the offset of a delivered job to the dispatcher."""
        self._dispatcher.on_delivered(record, delivered)

    def on_undelivered(self, record: Outgoing) -> None:
        """Forget a job that was never written."""
        self._dispatcher.on_undelivered(record)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        """An image that cannot be judged at all ends its request as FAILED."""
        outcome = failed(request_id_of(record), reason=str(error), by=self.role, now_ms=now_ms())
        return refused(record, outcome, error, now_ms())

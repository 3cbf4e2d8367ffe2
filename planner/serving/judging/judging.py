"""What becomes of an image: the order of all checks between it and the end of its request, or its next job.

`DiscriminatorLogic` is the discriminator's machine: images, scores and times in, effects out, one at a time. Three
drivers run it: the discriminator on Kafka and in one process (`agents/discriminator/role.py`), and simulated time
(`replay/simulation/roles/routing/judge.py`). It remembers nothing: an effect that asks for something carries what the
answer is decided by, so that several may be open. It knows no client, no clock and no thread.

    on_image        -> Drop | End         its request has ended; it is the answer, unscored
                    -> Ask                it is to be scored, then one of
    on_scored       -> End | SendOn       it is the answer; the request goes on to the next level
    on_away         -> Wait               the object store is away: then the image is to be scored again
    on_unreadable   -> ReadAgain | SendBack | Fail
"""

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from planner.serving.backoff import backoff_s
from planner.serving.requests import ClassifiedValues
from planner.serving.routing.escalation import Escalate, EscalationLogic, Keep, Score, Size
from planner.serving.routing.loads import Loads
from planner.serving.unreadable import SENDS, Then, pause_ms, then
from schemas.messages import Plan

J = TypeVar("J")
J_contra = TypeVar("J_contra", contravariant=True)


class Drop(NamedTuple, Generic[J]):
    """Do nothing for an image: its request has ended."""

    image: J


class Ask(NamedTuple, Generic[J]):
    """Score all images of a job. Answer: the confidence in the worst of them, or why they cannot be had."""

    image: J
    asked: Score
    failures: int = 0  # of the store in a row


class Wait(NamedTuple, Generic[J]):
    """Let the image, and those that lie behind it, wait for a store that is away; then carry out `then`."""

    then: Ask[J]
    ms: float


class End(NamedTuple, Generic[J]):
    """End the request: the image is the answer."""

    image: J
    plan: Plan
    decision: Keep
    confidence: float | None = None  # None: not scored
    discriminator: str = ""


class SendOn(NamedTuple, Generic[J]):
    """Send the request on to the next level of its cascade, with the image as its draft."""

    image: J
    asked: Score
    decision: Escalate
    confidence: float


class ReadAgain(NamedTuple, Generic[J]):
    """Read the image again after a while, behind those that wait."""

    image: J
    ms: float


class SendBack(NamedTuple, Generic[J]):
    """Have the image's job generated again, by another worker if there is one."""

    image: J
    plan: Plan
    error: Exception


class Fail(NamedTuple, Generic[J]):
    """End the request as FAILED: its image cannot be read."""

    image: J
    error: Exception


First = Drop[J] | End[J] | Ask[J]
Repair = ReadAgain[J] | SendBack[J] | Fail[J]
Effect = First[J] | SendOn[J] | Wait[J] | Repair[J]


class JudgedJob(Protocol):
    """A job whose images are judged; `schemas.messages.GenerateJob` is the live one."""

    @property
    def classified(self) -> ClassifiedValues:
        """Its classified request."""

    @property
    def level(self) -> str:
        """The level that it was sent to."""

    @property
    def variant(self) -> str:
        """The variant that serves the level."""

    @property
    def attempt(self) -> int:
        """How often it was sent."""


class Work(Protocol[J_contra]):
    """What the machine asks its driver of images and of the views in force. Nothing waits."""

    def job(self, image: J_contra) -> JudgedJob:
        """Return the image's job."""

    def has_ended(self, image: J_contra) -> bool:
        """Whether the request has its result, so that nothing of it is wanted any more."""

    def began_from_latent(self, image: J_contra) -> bool:
        """Whether the image was begun from a stored latent: one that found none is as any other of its variant."""

    def refined_a_draft(self, image: J_contra) -> bool:
        """Whether the image was begun from the draft that it replaces."""

    def sizes(self, image: J_contra) -> Sequence[Size]:
        """Return the width and height of each image of the job."""

    def loads(self, plan: Plan, now_ms: float, tier: str) -> Loads:
        """Return the loads of all workers under a plan, for a request of `tier`."""


class DiscriminatorLogic(Generic[J]):
    """Decides on images. Times are ms of the clock of `now_ms`."""

    def __init__(self, escalation: EscalationLogic, work: Work[J], max_attempts: int = SENDS) -> None:
        """`max_attempts`: at a job, as workers have it."""
        self._escalation, self._work, self._max_attempts = escalation, work, max_attempts

    def on_image(self, image: J, plan: Plan) -> First[J]:
        """Decide on an image before it is scored, by the plan in force, which also decides once it is scored."""
        if self._work.has_ended(image):
            return Drop(image)
        job = self._work.job(image)
        is_latent, is_refined = self._work.began_from_latent(image), self._work.refined_a_draft(image)
        level = job.level if is_latent else job.variant
        asked = self._escalation.examine(plan, level, job.classified, is_latent or is_refined)
        return Ask(image, asked) if isinstance(asked, Score) else End(image, plan, asked)

    def on_scored(self, ask: Ask[J], confidence: float, now_ms: float) -> End[J] | SendOn[J]:
        """Decide on an image once it is scored. `confidence`: in the worst of its job's."""
        image, asked, work = ask.image, ask.asked, self._work
        classified = work.job(image).classified
        loads = work.loads(asked.plan, now_ms, classified.request.tier)
        decision = self._escalation.decide(asked, classified, work.sizes(image), confidence, loads, now_ms)
        if isinstance(decision, Keep):
            return End(image, asked.plan, decision, confidence, asked.discriminator)
        return SendOn(image, asked, decision, confidence)

    def on_away(self, ask: Ask[J]) -> Wait[J]:
        """Wait for the store, for as long as it takes."""
        failures = ask.failures + 1
        return Wait(ask._replace(failures=failures), 1000 * backoff_s(failures))

    def on_unreadable(self, ask: Ask[J], error: Exception, stored_ms: float, now_ms: float) -> Repair[J]:
        """Decide on an image, stored at `stored_ms`, that is gone, not readable yet, or damaged."""
        image, job = ask.image, self._work.job(ask.image)
        age_ms, deadline_ms = now_ms - stored_ms, job.classified.request.deadline_ms
        left_ms = math.inf if deadline_ms is None else deadline_ms - now_ms
        match then(age_ms, left_ms, job.attempt, self._max_attempts):
            case Then.READ_AGAIN:
                return ReadAgain(image, pause_ms(age_ms))
            case Then.SEND_BACK:
                return SendBack(image, ask.asked.plan, error)
            case Then.FAIL:
                return Fail(image, error)

"""Makes the outcomes with which a request ends."""

import dataclasses
import math

from planner.serving.decisions import Rejection, draft_counts
from schemas.messages import (
    ClassifiedRequest,
    GenerateJob,
    GenerateRequest,
    ImageGenerated,
    Outcome,
    PromisedQuality,
    Stage,
    Status,
)

Subject = str | GenerateRequest | ClassifiedRequest | GenerateJob
"""The knowledge of a request at its end: from its bare id (a poison record) to a job with a path."""


def step_of(
    image: ImageGenerated, confidence: float | None, threshold: float | None, discriminator: str = "",
    promise: PromisedQuality | None = None,
) -> Stage:  # fmt: skip
    """The stage of a request's path that made this image. None, None: not scored; else by this discriminator."""
    job = image.job
    return Stage(
        stage=job.stage,
        level=job.level,
        worker_id=image.worker_id,
        plan_version=job.plan_version,
        queue_ms=max(0, image.started_ms - job.routed_ms),
        generate_ms=max(0, image.generated_ms - image.started_ms),
        batch=image.batch,
        attempt=image.attempt,
        confidence=None if confidence is None else as_score(confidence),  # JSON has no NaN
        threshold=threshold,
        image=image.image,
        more=image.more,
        overridden=job.overridden,
        refine_from_step=image.refine_from_step,
        probability=job.probability if job.stage == 0 else 0.0,
        discriminator=discriminator,
        reuse=image.reuse,
        latent=image.latent,
        components=image.components,
        times=image.times,
        promise=promise,
        made=image.made,
    )


def cost_of(path: tuple[Stage, ...]) -> float | None:
    """Return the price of the worker time of stages; None: there are none, or the worker of one has no price."""
    priced = [(stage.made.price_per_hour, stage) for stage in path if stage.made and stage.made.price_per_hour]
    if not priced or len(priced) < len(path):
        return None
    return round(sum(price * stage.generate_ms / stage.batch for price, stage in priced) / 3_600_000, 9)  # ms an hour


def as_score(confidence: float | None) -> float:
    """The confidence as a number; 0 for one that is missing or not finite, as it vouches for nothing."""
    return confidence if confidence is not None and math.isfinite(confidence) else 0.0


def completed(
    image: ImageGenerated, confidence: float | None, threshold: float | None,
    *, reason: str, by: str, policy: str, now_ms: int, discriminator: str = "",
    promise: PromisedQuality | None = None,
) -> Outcome:  # fmt: skip
    """The image is the answer."""
    outcome = _ended(Status.COMPLETED, image.job, reason, by, policy, now_ms)
    step = step_of(image, confidence, threshold, discriminator, promise)
    return dataclasses.replace(outcome, path=(*image.job.path, step))


def completed_by_draft(job: GenerateJob, *, reason: str, by: str, now_ms: int) -> Outcome:
    """The rejected draft is the answer after all: what was to replace it cannot come in time."""
    return _ended(Status.COMPLETED, job, reason, by, "", now_ms)


def rejected(
    subject: Subject, *, reason: str, by: str, now_ms: int, policy: str = "", code: str = "invalid",
    retry_after_ms: int | None = None, param: str = "",
) -> Outcome:  # fmt: skip
    """The request asks for what is never served, or (with `retry_after_ms`) not now."""
    outcome = _ended(Status.REJECTED, subject, reason, by, policy, now_ms, code)
    return dataclasses.replace(outcome, retry_after_ms=retry_after_ms, param=param)


def expired(subject: Subject, *, reason: str, by: str, now_ms: int, policy: str = "") -> Outcome:
    """The request's deadline cannot be met."""
    return _ended(Status.EXPIRED, subject, reason, by, policy, now_ms, "deadline")


def late_status(*, has_draft: bool) -> Status:
    """Return the status of a request whose job cannot be generated in time: the draft is the answer if there is one."""
    return Status.COMPLETED if has_draft else Status.EXPIRED


def too_late(job: GenerateJob, *, reason: str, by: str, now_ms: int) -> Outcome:
    """The outcome of a job that cannot be generated in time."""
    has_draft = bool(job.path) and draft_counts(job.classified.request.options)
    if late_status(has_draft=has_draft) is Status.COMPLETED:
        return completed_by_draft(job, reason=f"{reason}; the draft was kept", by=by, now_ms=now_ms)
    return expired(job, reason=reason, by=by, now_ms=now_ms)


def turned_away(rejection: Rejection, classified: ClassifiedRequest, *, by: str, policy: str, now_ms: int) -> Outcome:
    """The request ends where it was to be placed, REJECTED or EXPIRED."""
    if rejection.status is Status.EXPIRED:
        return expired(classified, reason=rejection.reason, by=by, now_ms=now_ms, policy=policy)
    return rejected(
        classified, reason=rejection.reason, by=by, now_ms=now_ms, policy=policy, code=rejection.code,
        retry_after_ms=rejection.retry_after_ms, param=rejection.param,
    )  # fmt: skip


def cancelled(request_id: str, *, reason: str, by: str, now_ms: int) -> Outcome:
    """Return the outcome of a cancelled request."""
    return _ended(Status.CANCELLED, request_id, reason, by, "", now_ms, "cancelled")


def failed(subject: Subject, *, reason: str, by: str, now_ms: int, policy: str = "", code: str = "poison") -> Outcome:
    """Return the outcome of a request that cannot be read or generated."""
    return _ended(Status.FAILED, subject, reason, by, policy, now_ms, code)


def _ended(status: Status, subject: Subject, reason: str, by: str, policy: str, now_ms: int, code: str = "") -> Outcome:
    job = subject if isinstance(subject, GenerateJob) else None
    classified = job.classified if job else subject if isinstance(subject, ClassifiedRequest) else None
    request = classified.request if classified else subject if isinstance(subject, GenerateRequest) else None
    return Outcome(
        request_id=request.request_id if request else str(subject),
        status=status,
        reason=reason,
        by=by,
        ended_ms=now_ms,
        request=request,
        classified=classified,
        path=job.path if job else (),
        policy=policy,
        code=code,
    )

"""Makes the end of a request: outcomes, and the public result."""

import dataclasses
import json
import math
from collections.abc import Sequence
from typing import Any

from planner.serving.decisions import Rejection, draft_counts
from schemas.avro import to_wire
from schemas.messages import (
    ClassifiedRequest,
    GenerateJob,
    GenerateRequest,
    ImageGenerated,
    Outcome,
    PromisedQuality,
    Result,
    Stage,
    Status,
)

MAX_CLOCK_DIFFERENCE_MS = 24 * 60 * 60 * 1000  # by which a writer's own time of a request may differ from the broker's

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
    )


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


def result_of(outcome: Outcome) -> Result:
    """The public, flat record of an outcome. The image is named only when it is the answer."""
    classified, last = outcome.classified, outcome.path[-1] if outcome.path else None
    request = outcome.request
    image = last.image if last and outcome.status is Status.COMPLETED else None
    return Result(
        request_id=outcome.request_id,
        status=outcome.status,
        reason=outcome.reason,
        prompt=request.prompt if request else "",
        tenant=request.tenant if request else "",
        image_uri=image.uri if image else None,
        image_sha256=image.sha256 if image else None,
        width=image.width if image else None,
        height=image.height if image else None,
        level=last.level if last else None,
        worker_id=last.worker_id if last else None,
        policy=outcome.policy,
        plan_version=last.plan_version if last else None,
        hardness=classified.hardness if classified else None,
        class_models=classified.classes.get("models") if classified else None,
        confidence=last.confidence if last else None,
        threshold=last.threshold if last else None,
        escalated=len(outcome.path) > 1,
        generate_ms=round(sum(step.generate_ms / step.batch for step in outcome.path)),
        latency_ms=outcome.ended_ms - _created_ms(request, classified) if request else None,
        created_ms=request.created_ms if request else None,
        ended_ms=outcome.ended_ms,
        path=json.dumps([to_wire(Stage)(step) for step in outcome.path]),  # `asdict` takes three times as long
        image_uris=tuple(each.uri for each in (image, *last.more)) if last and image else (),
        overridden=last.overridden if last else (),
        code=outcome.code,
        retry_after_ms=outcome.retry_after_ms,
        param=outcome.param,
        components=last.components if last and outcome.status is Status.COMPLETED else (),
        wrong_at_most=last.promise.wrong_at_most if last and last.promise else None,
        **_safety_of(last if image else None),
        **_times_of(outcome.path),
        **_reuse_of(outcome.path),
    )


def _safety_of(last: Stage | None) -> dict[str, Any]:
    """Return what a result says of the check of its images: the highest score, and what was done about that image."""
    images = (last.image, *last.more) if last and last.image else ()
    checked = [(each.unsafe, each.safety) for each in images if each.unsafe is not None]
    return dict(zip(("unsafe", "safety"), max(checked), strict=True)) if checked else {}


def _times_of(path: Sequence[Stage]) -> dict[str, Any]:
    """Return the parts of a result's `generate_ms`: of all stages, a batch's shared equally."""
    measured = [(stage.times, stage.batch) for stage in path if stage.times is not None]
    if not measured or len(measured) < len(path):
        return {}
    names = ("load_ms", "encode_ms", "denoise_ms", "decode_ms")
    return {name: round(sum(getattr(times, name) / batch for times, batch in measured), 3) for name in names}


def _reuse_of(path: Sequence[Stage]) -> dict[str, Any]:
    """Return what a result says of reuse: a draft that began from a stored latent counts, as it was refined."""
    begun = [stage.reuse for stage in path if stage.reuse is not None]
    for reuse in reversed(begun):
        if reuse.step:
            return {"reused": True, "reuse_step": reuse.step, "similarity": reuse.similarity}
    return {"reuse_miss": begun[0].miss} if begun else {}


def _created_ms(request: GenerateRequest, classified: ClassifiedRequest | None) -> int:
    """Return when a request began: as its writer says, unless that time is far from when the broker took it."""
    if classified is None or abs(classified.received_ms - request.created_ms) <= MAX_CLOCK_DIFFERENCE_MS:
        return request.created_ms
    return classified.received_ms

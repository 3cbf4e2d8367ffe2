"""One batch of jobs on a loaded engine: from records to the pictures, outcomes and retries that answer them."""

import dataclasses
import hashlib
import io
import logging
from collections.abc import Sequence

import tenacity
from PIL.Image import Image

from agents.engines import Engine, PaintTask
from agents.job_source import Taken
from agents.views import EndedView
from agents.writing import job_record, outcome_record, outgoing, refused
from planner.admission import can_meet, predicted_finish_ms
from planner.catalog import Variant, run_ms
from planner.outcomes import expired, failed
from schemas import topics
from schemas.errors import PochadeError
from schemas.ids import seed_of
from schemas.messages import GenerateJob, ImageGenerated, ImageRef
from schemas.record import Outgoing
from streams import metrics
from streams.codec import decode
from streams.reading import now_ms
from streams.request_codec import request_id_of
from streams.store import ImageStore, StoreUnavailable

log = logging.getLogger(__name__)

ROLE = "worker"


class TooManyOwners(PochadeError):
    """A job whose owners died or failed as often as is allowed."""


class Painter:
    """Paints what is still wanted; every record gets an answer."""

    def __init__(
        self, worker_id: str, engine: Engine, variant: Variant, store: ImageStore, ended: EndedView, max_attempts: int
    ) -> None:
        self._worker_id, self._engine, self._variant = worker_id, engine, variant
        self._store, self._ended, self._max_attempts = store, ended, max_attempts

    def answer(self, batch: Sequence[Taken]) -> list[Outgoing]:
        """The records to write before the batch may be committed."""
        answers: list[Outgoing] = []
        wanted: list[tuple[Taken, GenerateJob]] = []
        for taken in batch:
            try:
                job = decode(taken.record.value, GenerateJob)
            except PochadeError as error:
                answers += self._failed(taken, None, error)
                continue
            ended = self._end_before_painting(taken, job)
            if ended is None:
                wanted.append((taken, job))
            else:
                answers += ended
        return answers + self._paint(wanted)

    def _end_before_painting(self, taken: Taken, job: GenerateJob) -> list[Outgoing] | None:
        request = job.classified.request
        if request.request_id in self._ended:
            metrics.DEAD_WORK.labels(ROLE).inc()
            return []
        attempt = max(taken.attempt, job.attempt)
        if attempt > self._max_attempts:
            reason = f"job {job.job_id} ended {attempt - 1} workers; worker.max_attempts is {self._max_attempts}"
            return self._failed(taken, job, TooManyOwners(reason))
        if not can_meet(request.deadline_ms, predicted_finish_ms(now_ms(), 0, run_ms(self._variant, 1))):
            reason = f"{self._variant.name} would have finished after deadline_ms {request.deadline_ms}"
            outcome = expired(job, reason=reason, by=ROLE, now_ms=now_ms())
            return [outcome_record(outcome, taken.record.headers, now_ms())]
        return None

    def _paint(self, wanted: Sequence[tuple[Taken, GenerateJob]]) -> list[Outgoing]:
        if not wanted:
            return []
        started = now_ms()
        try:
            pictures = self._engine.paint([_task(job) for _, job in wanted], lambda: self._are_all_dead(wanted))
        except Exception as error:  # whatever a model and its libraries raise
            log.exception("painting failed")
            if len(wanted) > 1:  # one of them may be the cause: each alone
                return [record for pair in wanted for record in self._paint([pair])]
            return self._retry_or_fail(*wanted[0], error)
        painted = now_ms()
        if pictures is None:
            metrics.DEAD_WORK.labels(ROLE).inc(len(wanted))
            return []
        pairs = zip(wanted, pictures, strict=True)
        return [self._picture(taken, job, p, len(wanted), started, painted) for (taken, job), p in pairs]

    def _are_all_dead(self, wanted: Sequence[tuple[Taken, GenerateJob]]) -> bool:
        return all(job.classified.request.request_id in self._ended for _, job in wanted)

    def _picture(
        self, taken: Taken, job: GenerateJob, picture: Image, batch: int, started: int, painted: int
    ) -> Outgoing:
        data = _png(picture)
        uri = self._stored(job.job_id, data)
        image = ImageGenerated(
            job=job,
            image=ImageRef(
                uri=uri, sha256=hashlib.sha256(data).hexdigest(), width=picture.width, height=picture.height,
                bytes=len(data),
            ),
            worker_id=self._worker_id,
            batch=batch,
            attempt=max(taken.attempt, job.attempt),
            started_ms=started,
            painted_ms=painted,
            stored_ms=now_ms(),
        )  # fmt: skip
        return outgoing(
            topics.IMAGES, image, request_id=job.classified.request.request_id, cause=taken.record.headers, role=ROLE,
            now_ms=now_ms(), facts={"worker": self._worker_id, "sha256": image.image.sha256},
        )  # fmt: skip

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(StoreUnavailable), wait=tenacity.wait_exponential(0.1, max=5)
    )  # an outage of the store is waited out in place; the watchdog bounds it
    def _stored(self, name: str, data: bytes) -> str:
        return self._store.put(name, data)

    def _retry_or_fail(self, taken: Taken, job: GenerateJob, error: Exception) -> list[Outgoing]:
        attempt = max(taken.attempt, job.attempt)
        if attempt >= self._max_attempts:
            return self._failed(taken, job, error)
        metrics.FALLBACKS.labels(ROLE, "retry").inc()
        again = dataclasses.replace(job, attempt=attempt + 1)
        return [job_record(again, None, taken.record.headers, ROLE, now_ms())]

    def _failed(self, taken: Taken, job: GenerateJob | None, error: Exception) -> list[Outgoing]:
        reason = f"{type(error).__name__}: {error}"
        outcome = failed(job or request_id_of(taken.record), reason=reason, by=ROLE, now_ms=now_ms())
        return list(refused(taken.record, outcome, error, now_ms()))


def _task(job: GenerateJob) -> PaintTask:
    request = job.classified.request
    seed = seed_of(request.request_id) if request.seed is None else request.seed
    return PaintTask(request_id=request.request_id, prompt=request.prompt, seed=seed, level=job.level)


def _png(picture: Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()

"""One batch of jobs on a loaded engine: from records to the pictures, outcomes and retries that answer them."""

import dataclasses
import hashlib
import io
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import tenacity
from PIL.Image import Image

from agents.engines import Engine, PaintTask
from agents.job_source import Taken
from agents.views import EndedView
from agents.writing import event_record, job_record, outcome_record, outgoing, refused
from planner.admission import SEED_LIMIT, can_meet, predicted_finish_ms
from planner.options import Settled, job_ms, settle
from planner.outcomes import expired, failed, kept_draft
from planner.variant import Variant
from schemas import topics
from schemas.errors import PochadeError
from schemas.ids import seed_of
from schemas.messages import GenerateJob, ImageGenerated, ImageRef, Outcome
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


class Painted(NamedTuple):
    """When a call painted how many jobs."""

    started_ms: int
    painted_ms: int
    batch: int


Wanted = tuple[Taken, GenerateJob]


class Painter:
    """Paints what is still wanted; every record gets an answer."""

    def __init__(
        self,
        worker_id: str,
        engine: Engine,
        variant: Variant,
        store: ImageStore,
        ended: EndedView,
        max_attempts: int,
        note: Callable[[Outgoing], object] = lambda _note: None,
    ) -> None:
        self._worker_id, self._engine, self._variant, self._note = worker_id, engine, variant, note
        self._store, self._ended, self._max_attempts = store, ended, max_attempts

    def answer(self, batch: Sequence[Taken]) -> list[Outgoing]:
        """The records to write before the batch may be committed."""
        answers: list[Outgoing] = []
        wanted: list[Wanted] = []
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
        return answers + self._paint_groups(wanted)

    def _end_before_painting(self, taken: Taken, job: GenerateJob) -> list[Outgoing] | None:
        request = job.classified.request
        if request.request_id in self._ended:
            metrics.DEAD_WORK.labels(ROLE).inc()
            return []
        attempt = max(taken.attempt, job.attempt)
        if attempt > self._max_attempts:
            reason = f"job {job.job_id} ended {attempt - 1} workers; worker.max_attempts is {self._max_attempts}"
            return self._failed(taken, job, TooManyOwners(reason))
        took_ms = job_ms(self._variant, request.options)
        if not can_meet(request.deadline_ms, predicted_finish_ms(now_ms(), 0, took_ms)):
            reason = f"{self._variant.name} would have finished after deadline_ms {request.deadline_ms}"
            return [outcome_record(_too_late(job, reason), taken.record.headers, now_ms())]
        return None

    def _paint_groups(self, wanted: Sequence[Wanted]) -> list[Outgoing]:
        """Jobs that are painted alike share a call (design, section 2.4)."""
        groups: dict[Settled, list[Wanted]] = {}
        for taken, job in wanted:
            how = settle(job.classified.request.options, self._variant)
            groups.setdefault(how._replace(n=1, overridden=()), []).append((taken, job))
        return [record for how, group in groups.items() for record in self._paint(group, how)]

    def _paint(self, wanted: Sequence[Wanted], how: Settled) -> list[Outgoing]:
        started = now_ms()
        for _, job in wanted:  # best effort: nobody waits for it
            request_id = job.classified.request.request_id
            told = {"level": job.level, "worker": self._worker_id, "stage": job.stage, "steps": how.steps}
            self._note(event_record(request_id, "started", ROLE, started, **told))
        tasks = [task for _, job in wanted for task in _tasks(job)]
        try:
            pictures = self._engine.paint(tasks, how, lambda: self._are_all_dead(wanted))
        except Exception as error:  # whatever a model and its libraries raise
            log.exception("painting failed")
            if len(wanted) > 1:  # one of them may be the cause: each alone
                return [record for pair in wanted for record in self._paint([pair], how)]
            return self._retry_or_fail(*wanted[0], error)
        if pictures is None:
            metrics.DEAD_WORK.labels(ROLE).inc(len(wanted))
            return []
        painted = Painted(started, now_ms(), len(wanted))
        rest = iter(pictures)
        shares = [list(islice(rest, job.classified.request.options.n)) for _, job in wanted]
        alive = [(pair, own) for pair, own in zip(wanted, shares, strict=True) if not self._is_dead(pair[1])]
        metrics.DEAD_WORK.labels(ROLE).inc(len(wanted) - len(alive))
        return [self._picture(*pair, own, painted) for pair, own in alive]

    def _is_dead(self, job: GenerateJob) -> bool:
        return job.classified.request.request_id in self._ended

    def _are_all_dead(self, wanted: Sequence[Wanted]) -> bool:
        return all(self._is_dead(job) for _, job in wanted)

    def _picture(self, taken: Taken, job: GenerateJob, pictures: Sequence[Image], painted: Painted) -> Outgoing:
        first, *more = [self._stored(job.job_id, picture) for picture in pictures]
        image = ImageGenerated(
            job=job,
            image=first,
            worker_id=self._worker_id,
            batch=painted.batch,
            attempt=max(taken.attempt, job.attempt),
            started_ms=painted.started_ms,
            painted_ms=painted.painted_ms,
            stored_ms=now_ms(),
            more=tuple(more),
        )
        return outgoing(
            topics.IMAGES, image, request_id=job.classified.request.request_id, cause=taken.record.headers, role=ROLE,
            now_ms=now_ms(), facts={"worker": self._worker_id, "sha256": image.image.sha256},
        )  # fmt: skip

    def _stored(self, name: str, picture: Image) -> ImageRef:
        data = _png(picture)
        return ImageRef(
            uri=self._put(name, data), sha256=hashlib.sha256(data).hexdigest(), width=picture.width,
            height=picture.height, bytes=len(data),
        )  # fmt: skip

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(StoreUnavailable), wait=tenacity.wait_exponential(0.1, max=5)
    )  # an outage of the store is waited out in place; the watchdog bounds it
    def _put(self, name: str, data: bytes) -> str:
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


def _too_late(job: GenerateJob, reason: str) -> Outcome:
    """The end of what cannot be painted in time: the draft where there is one, else EXPIRED."""
    if job.path:
        return kept_draft(job, reason=f"{reason}; the draft was kept", by=ROLE, now_ms=now_ms())
    return expired(job, reason=reason, by=ROLE, now_ms=now_ms())


def _tasks(job: GenerateJob) -> list[PaintTask]:
    """One a picture; those of n > 1 have seeds in a row."""
    request = job.classified.request
    seed = seed_of(request.request_id) if request.seed is None else request.seed
    return [
        PaintTask(request_id=request.request_id, prompt=request.prompt, seed=(seed + i) % SEED_LIMIT)
        for i in range(request.options.n)
    ]


def _png(picture: Image) -> bytes:
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()

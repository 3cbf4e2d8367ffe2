"""Drives `WindowLogic` for a live worker: reads records, carries out effects on the engine and stores, writes answers.

Nothing is decided here. Effects are carried out one after the other, in the generating thread, which alone asks the
machine. An engine that allows several calls at once is called in threads of its own; their answers come as they end.
"""

import contextlib
import dataclasses
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from PIL.Image import Image

from agents.engines import CannotRefine, EncodedPrompts, Generated, GenerationTask
from agents.runtime.records import event_record, job_record, outcome_record, outgoing, refused, waiting_record
from agents.worker.calls import OpenCalls
from agents.worker.faults import fault_of, let_go
from agents.worker.images import Blocked, DraftFault, Storing, Waits, WorkerImages, texts_of
from agents.worker.jobs import Taken
from agents.worker.lookups import Sought
from agents.worker.stages import Stages
from agents.worker.work import ROLE, GenerationTimes, WorkerJob, WorkerViews, read_job
from planner.catalog.options import resolve_options
from planner.reuse.lookups.lookup import described, job_of
from planner.reuse.neighbour import latent_name
from planner.serving.dispatch.worker import POLL_MS, WorkerLogic, group_by_call
from planner.serving.ending.outcomes import completed_by_draft, cost_of, expired, failed, rejected, step_of
from planner.serving.generating.effects import (
    Answer,
    Away,
    Call,
    Called,
    CallFailed,
    Check,
    Commit,
    Done,
    Drop,
    Effect,
    End,
    Fault,
    Fetch,
    Fetched,
    HandBack,
    Keep,
    Kept,
    LookUp,
    NoDraft,
    Refused,
    Retry,
    SendOn,
    Sick,
    Stopped,
    Unchecked,
    Unfit,
    Wait,
)
from planner.serving.generating.window import Refuges, WindowLogic
from planner.serving.poison import mark_of
from planner.serving.routing.placement import placed_job
from schemas import topics
from schemas.errors import InvalidRequest, PochadeError
from schemas.messages import EventKind, GenerateJob, GenerateOptions, ImageGenerated, Outcome, Status
from schemas.record import Outgoing
from schemas.wire_names import field_name
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.codec.request_ids import request_id_of
from streams.kafka.producers.topic_limits import LIMITS
from streams.kafka.producers.writing import RecordTooLarge
from streams.observing import log_context
from streams.store.latents import Latent, UnfitLatent
from streams.store.port import ImageStore, StoreUnavailable, Unreadable
from streams.tracing import conventions as names
from streams.tracing import spans

log = logging.getLogger(__name__)

CHECK_PROMPT = "a red heart"  # of a call that no request asks for
Writes = Callable[[Outgoing], object]
More = Callable[[int], Sequence[Taken]]


class Made(NamedTuple):
    """The result of a call of the engine, and its time."""

    found: Generated | Exception | None  # None: it was stopped
    at_ms: int  # epoch
    at_s: float  # monotonic


class WindowDriver:
    """Drives the windows of one worker on one variant; every record gets an answer. For use by one thread."""

    def __init__(
        self, worker_id: str, views: WorkerViews, store: ImageStore, refuges: Refuges, max_attempts: int, *,
        note: Writes = lambda _record: None, waits: Waits = contextlib.nullcontext,
        aside: Waits = contextlib.nullcontext, stages: Stages | None = None,
        on_sick: Callable[[str, bool], object] = lambda _reason, _counts: None, png_text: bool = True,
    ) -> None:  # fmt: skip
        """`max_attempts`: at a job that the engine fails on. `note`: sends a record that nothing waits for.

        `waits`: around waiting for the store; `aside`: around a call of it. `stages`: of features;
        their opener closes them. `on_sick`: is called with the reason, and whether it counts, as in `Sick`.
        `png_text`: whether PNG files say how they were made.
        """
        self._on_sick, self._png_text = on_sick, png_text
        variant, calls = views.variant, views.engine.calls_at_once
        worker = WorkerLogic(variant, calls)
        self.logic = WindowLogic[WorkerJob](variant.name, worker, views, refuges, max_attempts, calls)
        self._worker_id, self._views = worker_id, views
        self._images, self._waits = WorkerImages(store, aside), waits
        self._note, self._stages = note, stages or Stages()
        self._encoded: list[EncodedPrompts] = []  # of a batch, while it was looked up
        self._write: Writes = note
        self._effects: deque[Effect[WorkerJob]] = deque()
        self._unread: list[tuple[Taken, PochadeError]] = []
        self._open = OpenCalls[Answer[WorkerJob]](calls, "engine") if calls > 1 else None

    @property
    def worker(self) -> WorkerLogic:
        """What the worker reckons with."""
        return self.logic.worker

    def close(self) -> None:
        """End the threads that store, and those of calls."""
        self._images.close()
        if self._open is not None:
            self._open.close()

    def begin(self, window: Sequence[Taken], batch: int) -> None:
        """Begin a window of records, of which up to `batch` share a call."""
        self._encoded = []
        self._effects.extend(self.logic.begin(self._read(window), batch, now_ms()))

    def _read(self, records: Sequence[Taken]) -> list[WorkerJob]:
        """Return the jobs of records; those that cannot be read are answered by `start`."""
        jobs, self._unread = list[WorkerJob](), []
        for taken in records:
            try:
                jobs.append(read_job(taken, self._views.variant))
            except PochadeError as error:
                self._unread.append((taken, error))
        return jobs

    def run(self, write: Writes, plan_version: int = 0, more: More | None = None) -> None:
        """Carry out what the window asks for. All of `write` is to be acknowledged before the window is committed.

        `more`: takes up to so many records that may join the window while calls run and leave room for others.
        """
        self.start(write)
        with contextlib.nullcontext() if self._views.reuse is None else self._views.reuse.batch():
            if self._open is None:
                self._carry_out_all(plan_version, self.carry_out)
            else:
                self._run_side_by_side(plan_version, self._open, more)

    def _carry_out_all(
        self, plan_version: int, carry_out: Callable[[Effect[WorkerJob]], Answer[WorkerJob] | None]
    ) -> None:
        while (effect := self.take()) is not None:
            records = [each.taken.record for each in _jobs_of(effect)]
            with log_context.serving(*records, plan_version=plan_version):
                answer = carry_out(effect)
            self.give(answer)

    def _run_side_by_side(self, plan_version: int, calls: OpenCalls[Answer[WorkerJob]], more: More | None) -> None:
        """Make calls in threads, and go on with each as it ends; everything else is done here, one after the other.

        Where that fails, the calls are stopped and have ended before the error leaves.
        """
        try:
            self._carry_out_all(plan_version, self._begin)
            while True:
                most = self.logic.room() if more is not None and calls.are_open else 0
                if most and more is not None and (joining := more(most)):
                    self._effects.extend(self.logic.begin(self._read(joining), 1, now_ms()))
                    self.start(self._write)
                elif (answer := calls.take(self._waits, POLL_MS / 1000 if most else None)) is not None:
                    self.give(answer)
                    while calls.are_open and (answer := calls.take(self._waits, 0)) is not None:
                        self.give(answer)
                elif not calls.are_open:
                    break
                self._carry_out_all(plan_version, self._begin)
        finally:
            calls.abandon()

    def _begin(self, effect: Effect[WorkerJob]) -> Answer[WorkerJob] | None:
        """Begin a call or a wait, and carry out any other effect."""
        assert self._open is not None
        calls = self._open
        match effect:
            case Call(_, _, has_ended):
                stopped = effect._replace(has_ended=lambda job: calls.are_abandoned or has_ended(job))
                calls.begin(partial(self._made, stopped), partial(self._called, effect, self.begin_call(effect)))
            case Wait(id_, _, ms):
                calls.wait(ms / 1000, Done(id_))
            case _:
                return self.carry_out(effect)
        return None

    def start(self, write: Writes) -> None:
        """Answer the records that cannot be read; what the window asks for is to be taken from now on."""
        self._write = write
        for taken, error in self._unread:
            self._failed(taken, None, error)

    def take(self) -> Effect[WorkerJob] | None:
        """Return what the window asks for next; None: nothing before an answer, or it is done."""
        return self._effects.popleft() if self._effects else None

    def give(self, answer: Answer[WorkerJob] | None) -> None:
        """Let the window go on after an answer; None: to an effect that has none."""
        if answer is not None:
            self._effects.extend(self.logic.on(answer, now_ms()))
            if self._open is not None:  # what runs beside everything else begins first
                self._effects = deque(sorted(self._effects, key=lambda effect: not isinstance(effect, Call)))

    def carry_out(self, effect: Effect[WorkerJob]) -> Answer[WorkerJob] | None:
        """Carry out an effect, however long it takes; return the answer to it, if it has one."""
        match effect:
            case Fetch(id_, jobs):
                return Fetched(id_, [trouble for each in jobs for trouble in self._fetched(each)])
            case LookUp(id_, jobs):
                self._look_up(jobs)
                return Done(id_)
            case Call():
                return self.generate(effect, self.begin_call(effect))
            case Keep(id_, jobs):
                return Kept(id_, list(self._keep(jobs)))
            case Wait(id_, _, ms):
                with self._waits():
                    time.sleep(ms / 1000)
                return Done(id_)
            case SendOn(job, placement, reason):
                plan = self._views.plan()
                other = placed_job(
                    job.classified, placement, 0.0, plan_version=plan.version if plan else 0, now_ms=now_ms()
                )
                self._sent_on(job, other, reason)
            case End():
                self._end(effect)
            case Check(id_):
                return self._check(id_)
            case Retry(job, attempt, _, is_death):
                metrics.FALLBACKS.labels(ROLE, "retry").inc()
                self._retry(job, attempt, job.owners - 1 + is_death)
            case HandBack(job):
                metrics.FALLBACKS.labels(ROLE, "sick").inc()
                back = dataclasses.replace(job.job, attempt=job.attempts, deaths=job.owners - 1)
                self._answer(waiting_record(back, job.taken.record.headers, ROLE, now_ms()), job)
            case Sick(reason, counts):
                log.error("this worker is sick: %s", reason)
                self._on_sick(reason, counts)
            case Drop():
                metrics.DEAD_WORK.labels(ROLE).inc()
            case Commit():
                pass
        return None

    # What jobs begin with.

    def _fetched(self, job: WorkerJob) -> Iterator[NoDraft[WorkerJob] | Refused[WorkerJob] | Away[WorkerJob]]:
        try:
            if job.inputs is None:
                job.inputs = self._images.inputs(job.job, job.how)
        except InvalidRequest as error:
            yield Refused(job, str(error), error.field)
            return
        except StoreUnavailable as error:
            yield Away(job, error)
            return
        try:
            if job.refines and not job.drafts:
                job.drafts = self._images.drafts(job.job, job.how)
        except DraftFault as error:
            yield NoDraft(job, error.kind, str(error))
        except StoreUnavailable as error:
            yield Away(job, error, is_draft=True)
        except Unreadable as error:
            yield Away(job, error, is_draft=True, kind="missing")

    def _look_up(self, jobs: Sequence[WorkerJob]) -> None:
        """Look up all jobs of a batch together, and encode their prompts meanwhile."""
        self._encoded = []
        reuse = self._views.reuse
        terms = reuse.terms() if reuse is not None else None
        if terms is None or reuse is None:
            return
        sought = [self._sought(each) for each in jobs]
        begun = reuse.find(sought, terms, self._views.engine.latent_space, meanwhile=lambda: self._encode(jobs))
        for each, how in zip(jobs, begun, strict=True):
            each.begin(how.decision, how.latent)

    def _encode(self, jobs: Sequence[WorkerJob]) -> None:
        """Encode the prompts of the calls that a batch is made in, unless its jobs begin at different steps."""
        for group in group_by_call(jobs, self._views.key):
            tasks = [task for each in group for task in each.tasks()]
            try:
                encoded = self._views.engine.encode(tasks, group[0].how)
            except Exception as error:  # whatever a model and its libraries raise: the call will, and answers for it
                log.debug("prompts are encoded within their call: %r", error)
                continue
            if encoded is not None:
                self._encoded.append(encoded)

    def _sought(self, each: WorkerJob) -> Sought:
        request, job, how = each.request, each.job, each.how
        asked = job_of(
            request, self._views.variant, how, job.reuse_share, has_draft=bool(each.drafts), attempt=each.attempts
        )
        return Sought(job=asked, tenant=request.tenant, width=how.width, height=how.height)

    # A call.

    def begin_call(self, call: Call[WorkerJob]) -> int:
        """Note that a call begins; return when, in epoch ms."""
        started = now_ms()
        for each in call.jobs:  # best effort: nothing waits for it
            self._note(self._started(each, started))
        return started

    def generate(self, call: Call[WorkerJob], started: int) -> Called | Stopped | Unfit | CallFailed:
        """Have the engine generate the jobs of a call that began at `started`; any thread may."""
        return self._called(call, started, self._made(call))

    def _made(self, call: Call[WorkerJob]) -> Made:
        """Call the engine; several threads may."""
        found: Generated | Exception | None
        try:
            found = self._generate(call)
        except (CannotRefine, UnfitLatent) as error:
            found = error
        except Exception as error:  # whatever a model and its libraries raise
            log.exception("generation failed")
            found = error
        if isinstance(found, Exception) and fault_of(found) is Fault.MEMORY:
            let_go(found)
            self._views.engine.free()
        return Made(found, now_ms(), time.monotonic())

    def _called(
        self, call: Call[WorkerJob], started: int, made: Made, side_by_side: int = 1
    ) -> Called | Stopped | Unfit | CallFailed:
        """Give the jobs of a call what was made for them, and count it; return the answer.

        `side_by_side`: calls that ran meanwhile, this one included.
        """
        jobs = call.jobs
        match made.found:
            case None:
                return Stopped(call.id)
            case CannotRefine() | UnfitLatent() as error:
                return Unfit(call.id, error)
            case Exception() as error:
                return CallFailed(call.id, error, fault_of(error), getattr(error, "param", ""))
            case generated:
                times = GenerationTimes(started, made.at_ms, len(jobs) + side_by_side - 1, generated.times)
        rest = iter(zip(generated.images, generated.latents, strict=True))
        for each in jobs:
            each.made, each.times, each.made_s = list(islice(rest, each.how.n)), times, made.at_s
            if self._views.reuse is not None and each.decision is not None:
                self._views.reuse.count(each.decision)
        self._count(jobs, times)
        load_ms = times.parts.load_ms if times.parts is not None else 0.0
        return Called(call.id, times.generated_ms - started - load_ms, load_ms, side_by_side)

    def _generate(self, call: Call[WorkerJob]) -> Generated | None:
        """Return the images of a call; None where the engine has stopped."""
        tasks, how = [task for each in call.jobs for task in each.tasks()], call.jobs[0].how
        if 0 < call.most < len(tasks):
            return self._in_parts(call, tasks)
        encoded = next((encoded for encoded in self._encoded if encoded.are_of(tasks, how)), None)
        more: dict[str, Any] = {"wants_latents": True} if any(map(self._views.stores_latent, call.jobs)) else {}
        if encoded is not None:
            more["encoded"] = encoded
        more |= self._stages.for_call(call.jobs, lambda job: self._views.judged_ms(job) > 0)
        return self._views.engine.generate(tasks, how, call.should_stop, **more)

    def _in_parts(self, call: Call[WorkerJob], tasks: Sequence[GenerationTask]) -> Generated | None:
        """Generate a call in several, of as many images as the memory is large enough for; without previews."""
        images, latents = list[Image](), list[Latent | None]()
        wants_latents = any(map(self._views.stores_latent, call.jobs))
        for first in range(0, len(tasks), call.most):
            part = tasks[first : first + call.most]
            made = self._views.engine.generate(part, call.jobs[0].how, call.should_stop, wants_latents=wants_latents)
            if made is None:
                return None
            images += made.images
            latents += made.latents
        return Generated(images, latents)

    def _check(self, id_: int) -> Done | CallFailed:
        """Generate an image of the variant's own size and steps, which is thrown away."""
        task = GenerationTask(request_id="check", prompt=CHECK_PROMPT, seed=0)
        try:
            self._views.engine.generate([task], resolve_options(GenerateOptions(), self._views.variant), lambda: False)
        except Exception as error:  # whatever a model and its libraries raise
            log.exception("a call that checks the worker failed")
            return CallFailed(id_, error)
        return Done(id_)

    def _count(self, jobs: Sequence[WorkerJob], times: GenerationTimes) -> None:
        """Count a call: how long its jobs waited, how many they were, and how long it took, by part."""
        variant = self._views.variant.name
        metrics.GENERATED.labels(jobs[0].begins_with).inc(len(jobs))
        for each in jobs:
            waited_ms = max(0, times.started_ms - each.job.routed_ms)
            metrics.JOB_QUEUE_SECONDS.labels(variant).observe(waited_ms / 1000)
        metrics.BATCH_JOBS.labels(variant).observe(len(jobs))
        metrics.GENERATION_SECONDS.labels(variant).observe(max(0, times.generated_ms - times.started_ms) / 1000)
        if spans.recorder is not None:
            facts: dict[str, object] = {names.GENERATION: names.GENERATE, names.PROVIDER: "pochade"}
            facts |= {names.MODEL: variant, names.OUTPUT: "image", names.BATCH_JOBS: len(jobs)}
            records = [each.taken.record for each in jobs]
            spans.note(ROLE, records, f"{names.GENERATE} {variant}", times.started_ms, times.generated_ms, facts)
        if (parts := times.parts) is not None:
            taken_ms = {"load": parts.load_ms, "encode": parts.encode_ms, "denoise": parts.denoise_ms}
            for part, ms in {**taken_ms, "decode": parts.decode_ms}.items():
                metrics.GENERATION_PART_SECONDS.labels(part).observe(ms / 1000)

    def _started(self, each: WorkerJob, at_ms: int) -> Outgoing:
        job, how = each.job, each.how
        over = how.refine_from_step if each.latent is None else 0
        begun = {} if each.latent is None else {"reuse_step": how.refine_from_step}
        return event_record(
            job.classified.request.request_id, EventKind.STARTED, ROLE, at_ms, level=job.level, worker=self._worker_id,
            stage=job.stage, steps=how.steps, **{field_name("refine_from_step"): over}, **begun,
        )  # fmt: skip

    # The images.

    def _keep(self, jobs: Sequence[WorkerJob]) -> Iterator[Refused[WorkerJob] | Unchecked[WorkerJob] | Away[WorkerJob]]:
        """Check the images of jobs, store those that may be shown, and send on those that are stored."""
        stored = list[WorkerJob]()
        for each in jobs:
            try:
                if each.storing is None:
                    each.storing = self._checked(each)
                stored.append(each)
            except Blocked as error:
                yield Refused(each, str(error))
            except Exception as error:  # whatever a stage raises: what could not be checked is not shown
                log.exception("images could not be checked")
                yield Unchecked(each, error)
        self._images.store([each.storing for each in stored if each.storing is not None])
        for each in stored:
            assert each.storing is not None
            if each.storing.lacking is None:
                self._send(each, each.storing)
            else:
                yield Away(each, each.storing.lacking)

    def _checked(self, job: WorkerJob) -> Storing:
        """Return what may be stored of a job's images. Raises Blocked, and whatever a stage raises."""
        tenant = job.request.tenant
        safe = self._stages.check([image for image, _ in job.made], tenant)
        latent = job.made[0][1] if self._views.stores_latent(job) and safe[0].is_as_generated else None
        made, prompt, name = self._views.made(job), job.request.prompt, latent_name(tenant, job.job_id)
        texts = [texts_of(prompt, made, number) for number in range(len(safe))] if self._png_text else ()
        return Storing(job.job_id, safe, latent, name, texts, partial(self._stages.seal, job, made), made)

    def _send(self, each: WorkerJob, storing: Storing) -> None:
        metrics.STORE_SECONDS.observe(time.monotonic() - each.made_s)
        job, decision, times = each.job, each.decision, each.times
        first, *more = storing.refs()
        overridden = tuple(dict.fromkeys((*job.overridden, *each.changed)))  # it may be generated again
        image = ImageGenerated(
            job=dataclasses.replace(job, overridden=overridden), image=first,
            worker_id=self._worker_id, batch=times.batch, attempt=each.attempts,
            started_ms=times.started_ms, generated_ms=times.generated_ms, stored_ms=now_ms(), more=tuple(more),
            refine_from_step=each.how.refine_from_step if each.latent is None else 0,
            reuse=None if decision is None else described(decision, each.how.steps), latent=storing.latent_ref,
            components=each.how.components.ids, times=times.parts, made=storing.made,
        )  # fmt: skip
        if cost := cost_of((step_of(image, None, None),)):
            metrics.COST.labels(job.level, each.request.tier).inc(cost)
        record = outgoing(
            topics.IMAGES, image, request_id=each.request.request_id, cause=each.taken.record.headers, role=ROLE,
            now_ms=now_ms(), facts={"worker": self._worker_id, "sha256": first.sha256},
        )  # fmt: skip
        each.made = ()
        self._answer(record, each)

    # Ends without an image.

    def _end(self, end: End[WorkerJob]) -> None:
        if end.error is not None:
            self._failed(end.job.taken, end.job.job, end.error, end.reason)
        else:
            record = outcome_record(_outcome(end), end.job.taken.record.headers, now_ms())
            self._answer(record, end.job)
        if end.is_poison:
            request, at_ms = end.job.request, now_ms()
            mark = mark_of(request)
            self._views.poison.add(request.request_id, mark, at_ms)
            self._write(Outgoing(topic=topics.POISON, key=request.request_id.encode(), value=encode(mark)))

    def _retry(self, each: WorkerJob, attempt: int, deaths: int) -> None:
        """Write a job for another worker; where there is none for this one, or, if it is sick, for the next to come."""
        failed_on = tuple(dict.fromkeys((*each.job.failed_on, self._worker_id)))
        again = dataclasses.replace(each.job, attempt=attempt, failed_on=failed_on, deaths=deaths)
        headers, other = each.taken.record.headers, self._views.elsewhere(each)
        if other is not None:
            again = dataclasses.replace(again, worker_id=other.worker_id)
            self._answer(job_record(again, other.partition, headers, ROLE, now_ms()), each)
        elif self.logic.is_sick:
            self._answer(waiting_record(again, headers, ROLE, now_ms()), each)
        else:
            self._answer(job_record(again, None, headers, ROLE, now_ms()), each)

    def _sent_on(self, each: WorkerJob, other: GenerateJob, reason: str) -> None:
        """Write the job into another level's queue, from which its router forwards it, and the note that says so."""
        metrics.FALLBACKS.labels(ROLE, "too-late").inc()
        detail = {"from": each.job.level, "to": other.level, "reason": reason}
        self._note(event_record(each.request.request_id, EventKind.REROUTED, ROLE, now_ms(), **detail))
        self._answer(waiting_record(other, each.taken.record.headers, ROLE, now_ms()), each)

    def _answer(self, record: Outgoing, each: WorkerJob) -> None:
        """Write a record, or what ends the request where no topic takes it: a worker would try that for ever."""
        try:
            LIMITS.check(record)
        except RecordTooLarge as error:
            self._failed(each.taken, each.job, error)
        else:
            self._write(record)

    def _failed(self, taken: Taken, job: GenerateJob | None, error: Exception, reason: str = "") -> None:
        reason = reason or f"{type(error).__name__}: {error}"
        outcome = failed(job or request_id_of(taken.record), reason=reason, by=ROLE, now_ms=now_ms())
        for record in refused(taken.record, outcome, error, now_ms()):
            self._write(record)


def _outcome(end: End[WorkerJob]) -> Outcome:
    if end.status is Status.COMPLETED:
        return completed_by_draft(end.job.job, reason=end.reason, by=ROLE, now_ms=now_ms())
    if end.status is Status.EXPIRED:
        return expired(end.job.job, reason=end.reason, by=ROLE, now_ms=now_ms())
    return rejected(end.job.job, reason=end.reason, by=ROLE, now_ms=now_ms(), code=end.code, param=end.param)


def _jobs_of(effect: Effect[WorkerJob]) -> Sequence[WorkerJob]:
    match effect:
        case Fetch() | LookUp() | Call() | Keep() | Wait():
            return effect.jobs
        case SendOn() | End() | Retry() | HandBack() | Drop():
            return (effect.job,)
        case _:
            return ()

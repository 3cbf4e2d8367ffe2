"""Generates one batch of jobs on a loaded engine: from records to the images, outcomes and retries that answer them.

A job is settled first (`Wanted`): how it is generated, over which drafts, and with which others it shares a call.
"""

import contextlib
import dataclasses
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from PIL.Image import Image

from agents.engines import CannotRefine, EncodedPrompts, Engine, Generated, GenerationTask, Previews
from agents.runtime.records import event_record, job_record, outcome_record, outgoing, refused, waiting_record
from agents.runtime.request_views import PoisonView
from agents.runtime.views import EndedView
from agents.worker.images import Blocked, Check, Inputs, NoDraft, Stored, ToStore, Waits, WorkerImages, unchecked
from agents.worker.jobs import Taken
from agents.worker.lookups import Begun, Sought
from agents.worker.previews import PreviewWriter, previews_of
from agents.worker.reuse import WorkerReuse
from planner.catalog.components import NOTHING, needs_components, unhonoured
from planner.catalog.entries import Variant
from planner.catalog.option_limits import MAX_IMAGES, check_options
from planner.catalog.options import ResolvedOptions, read_as_letters, resolve_options, resolved_ms
from planner.components.demand.combinations import combination
from planner.components.from_catalog import requested
from planner.reuse.lookups.lookup import described, job_of
from planner.reuse.neighbour import Miss, latent_name
from planner.reuse.steps import Decision, FullRun, Reuse
from planner.serving.admission.admission import SEED_LIMIT
from planner.serving.decisions import POISON, UNHONOURED
from planner.serving.dispatch.worker import WorkerLogic, group_by_call, has_killed_enough
from planner.serving.ending.outcomes import completed_by_draft, failed, rejected, too_late
from planner.serving.poison import mark_of
from planner.serving.routing.composing import insists_on
from planner.serving.routing.soft_deadline import Due
from planner.serving.safety import UNSAFE
from schemas import topics
from schemas.errors import InvalidRequest, PochadeError
from schemas.ids import refinement_seed, seed_of
from schemas.messages import CallTimes, EventKind, GenerateJob, GenerateRequest, ImageGenerated
from schemas.record import Outgoing
from schemas.wire_names import field_name
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.codec.headers import ANY_FORM, PREVIEWS
from streams.codec.request_ids import request_id_of
from streams.kafka.producers.topic_limits import LIMITS
from streams.kafka.producers.writing import RecordTooLarge
from streams.store.latents import Latent, UnfitLatent
from streams.store.port import ImageStore
from streams.tracing import conventions as names
from streams.tracing import spans

log = logging.getLogger(__name__)

ROLE = "worker"


def image_seeds(request: GenerateRequest) -> list[int]:
    """Return the noise seeds of a request's images: consecutive ones, from its own or one of its id."""
    first = seed_of(request.request_id) if request.seed is None else request.seed
    return [(first + number) % SEED_LIMIT for number in range(request.options.n)]


class Wanted(NamedTuple):
    """A job that somebody still waits for."""

    taken: Taken
    job: GenerateJob
    how: ResolvedOptions
    drafts: tuple[Image, ...] = ()  # one an image where how.refine_from_step > 0 over drafts, else none
    decision: Decision | None = None  # to begin from a stored latent, or why not; None: the plan asks for no reuse
    latent: Latent | None = None  # where how.refine_from_step > 0 of a stored latent
    inputs: Inputs = Inputs()  # the images that the request names
    changed: tuple[str, ...] = ()  # of its prompts and images, as `overridden` has it

    @property
    def attempt(self) -> int:
        """Number of owners that the job has had, this one included."""
        return max(self.taken.attempt, self.job.attempt)

    def on_blank(self) -> "Wanted":
        """Return this job generated from noise instead of refining its drafts, or beginning from a latent."""
        decision = FullRun(Miss.ENGINE) if isinstance(self.decision, Reuse) else self.decision
        how = self.how._replace(refine_from_step=0)
        return self._replace(how=how, drafts=(), decision=decision, latent=None)

    def begun(self, begun: Begun) -> "Wanted":
        """Return this job as it begins: from a stored latent, at a step of its own, or as it is."""
        decision, latent = begun
        how = self.how._replace(refine_from_step=decision.step) if isinstance(decision, Reuse) else self.how
        return self._replace(how=how, decision=decision, latent=latent)

    @property
    def begins_with(self) -> str:
        """What it begins with: noise, draft or latent."""
        return "latent" if self.latent is not None else "draft" if self.how.refine_from_step else "noise"

    def tasks(self) -> list[GenerationTask]:
        """Return one task per image: consecutive seeds for n > 1; other noise than the draft's for refining."""
        request = self.job.classified.request
        seeds = image_seeds(request)
        over: list[Image | Latent | None] = list(self.drafts) or [self.latent] * len(seeds)
        return [
            GenerationTask(
                request_id=request.request_id,
                prompt=request.prompt,
                seed=seed if begin is None else refinement_seed(seed, self.job.stage),
                over=begin,
                controls=self.inputs.controls,
                image=self.inputs.image,
                mask=self.inputs.mask,
            )
            for seed, begin in zip(seeds, over, strict=True)
        ]


def grouped(wanted: Iterable[Wanted]) -> list[list[Wanted]]:
    """The jobs that share a call: those of one size, steps, guidance and first step, over one kind of beginning."""
    return group_by_call(wanted, lambda each: (each.begins_with, each.how._replace(n=1, overridden=())))


class EndedWorkers(PochadeError):
    """A job whose workers died as often as is allowed."""


class GenerationTimes(NamedTuple):
    """The times of a call, in epoch ms, and the number of its jobs."""

    started_ms: int
    generated_ms: int
    batch: int
    parts: CallTimes | None = None  # what it did in that time


class Generator:
    """Generates what is still wanted; every record gets an answer."""

    def __init__(
        self,
        worker_id: str,
        engine: Engine,
        variant: Variant,
        store: ImageStore,
        ended: EndedView,
        max_attempts: int,
        note: Callable[[Outgoing], object] = lambda _note: None,
        judged_ms: Callable[[GenerateJob], float] = lambda _job: 0.0,  # from generated to judged, by the plan in force
        due: Callable[[GenerateJob], Due] = lambda job: Due(job.classified.request.deadline_ms),
        refuge: Callable[[GenerateJob], GenerateJob | None] = lambda _job: None,  # a late job's next
        waits: Waits = contextlib.nullcontext,  # around waiting for the store
        aside: Waits = contextlib.nullcontext,  # around a call of the store
        logic: WorkerLogic | None = None,  # of the worker; by default one of its own
        reuse: WorkerReuse | None = None,  # of the worker; None: nothing begins from stored latents
        previews: PreviewWriter | None = None,  # of the worker; None: nobody is shown any
        check: Check = unchecked,  # what of a tenant's images may be stored
        poison: PoisonView | None = None,  # of the process; by default one of its own
    ) -> None:
        self._worker_id = worker_id
        self._engine = engine
        self._variant = variant
        self._note = note
        self._pictures = WorkerImages(store, waits, aside)
        self._ended = ended
        self._max_attempts = max_attempts
        self._judged_ms = judged_ms
        self._due, self._refuge = due, refuge
        self.logic = logic or WorkerLogic(variant)
        self._reuse = reuse
        self._previews = previews
        self._check = check
        self._poison = poison or PoisonView()
        self._encoded: list[EncodedPrompts] = []  # of this batch, while it was looked up

    def close(self) -> None:
        """End the threads that store."""
        self._pictures.close()

    def answer(self, batch: Sequence[Taken]) -> list[Outgoing]:
        """The records to write before the batch may be committed."""
        answers, alive, wanted = list[Outgoing](), list[Wanted](), list[Wanted]()
        self._encoded = []
        for taken in batch:
            try:
                job = decode(taken.record.value, GenerateJob)
                check_options(job.classified.request, MAX_IMAGES)  # who wrote it may not have
            except PochadeError as error:
                answers += self._failed(taken, None, error)
                continue
            each = Wanted(
                taken, job, resolve_options(job.classified.request.options, self._variant, job.refine_from_step)
            )
            ended = self._end_unpainted(each)
            if ended is None:
                ended = self._end_unhonoured(each)
            if ended is not None:
                answers += ended
                continue
            try:
                each = each._replace(inputs=self._pictures.inputs(job, each.how))
            except InvalidRequest as error:
                answers += self._rejected(each, str(error), "invalid", error.field)
                continue
            except NoDraft as error:  # the store is away
                answers += self._retry_or_fail(each, error)
                continue
            each, ended = self._changed(each)
            if ended is not None:
                answers += ended
                continue
            alive.append(self._with_drafts(each))
        with contextlib.nullcontext() if self._reuse is None else self._reuse.batch():
            for each in self._with_latents(alive):
                ended = self._end_too_late(each)
                if ended is None:
                    wanted.append(each)
                else:
                    answers += ended
            return answers + [record for call in self._calls(wanted) for record in self._generate(call)]

    def _calls(self, wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
        """The calls of a batch; each is looked at as it begins, as those of the simulator are."""
        waiting = deque(grouped(wanted))
        while waiting:
            call, *others = self._in_time(waiting.popleft())
            waiting.extendleft(others)
            yield call

    def _in_time(self, group: list[Wanted]) -> list[list[Wanted]]:
        """The jobs of a group in one call, or in the two that more of them are in time with."""
        if len(group) == 1:
            return [group]

        def call_ms(some: Sequence[Wanted]) -> float:
            return resolved_ms(self._variant, some[0].how._replace(n=sum(each.how.n for each in some)))

        return self.logic.calls_in_time(group, [self._due_ms(each) for each in group], call_ms, now_ms())

    def _due_ms(self, wanted: Wanted) -> float:
        """When the call of a job must have ended for its image to be an answer in time (epoch ms)."""
        deadline_ms = wanted.job.classified.request.deadline_ms
        return math.inf if deadline_ms is None else deadline_ms - self._besides_ms(wanted)

    def _besides_ms(self, wanted: Wanted) -> float:
        """What a job takes beside its call until it is an answer: loading what the device lacks, and judging."""
        return self._judged_ms(wanted.job) + self._lacking_ms(wanted)

    def _end_unpainted(self, wanted: Wanted) -> list[Outgoing] | None:
        taken, job = wanted.taken, wanted.job
        request = job.classified.request
        if taken.has_ended or self._is_dead(job):
            metrics.DEAD_WORK.labels(ROLE).inc()
            return []
        if has_killed_enough(taken.attempt):
            mark, at_ms = mark_of(request), now_ms()
            self._poison.add(request.request_id, mark, at_ms)
            reason = f"job {job.job_id} ended {taken.attempt - 1} workers; requests equal to it are refused for an hour"
            marked = Outgoing(topic=topics.POISON, key=request.request_id.encode(), value=encode(mark))
            return [*self._failed(taken, job, EndedWorkers(reason)), marked]
        if (equal := self._poison.equal_to(request, now_ms())) is not None:
            reason = f"request {equal} with this prompt and these options ended its workers: change one or wait an hour"
            return self._rejected(wanted, reason, POISON)
        return None

    def _end_unhonoured(self, wanted: Wanted) -> list[Outgoing] | None:
        """A router of another catalog may have sent what this one's variant cannot generate with."""
        options = wanted.job.classified.request.options
        fault = unhonoured(options, self._variant.offer) if needs_components(options) else None
        return self._rejected(wanted, fault.reason, UNHONOURED, fault.param) if fault else None

    def _changed(self, wanted: Wanted) -> tuple[Wanted, list[Outgoing] | None]:
        """The job with what is changed of its prompts and images, and what ends it where it allows none of that."""
        job, cuts = wanted.job, self._cuts(wanted)
        changed = (*cuts, *wanted.inputs.changed)
        wanted = wanted._replace(changed=changed)
        refused = cuts if ANY_FORM in wanted.taken.record.headers else changed
        if not refused or not job.classified.request.options.strict:
            return wanted, None
        reason, param = insists_on(job.level, refused)
        if not job.path:
            return wanted, self._rejected(wanted, reason, UNHONOURED, param)
        outcome = completed_by_draft(job, reason=f"{reason}; the draft was kept", by=ROLE, now_ms=now_ms())
        record = outcome_record(outcome, wanted.taken.record.headers, now_ms())
        return wanted, self._writable(record, wanted.taken, job)

    def _cuts(self, wanted: Wanted) -> tuple[str, ...]:
        """What is not read of a job's prompts, or not as it is meant."""
        prompt = wanted.job.classified.request.prompt
        letters = read_as_letters(prompt)
        try:
            return (*letters, *self._engine.cuts(prompt, wanted.how.negative_prompt))
        except Exception as error:  # whatever a tokenizer raises: the call will, and answers for it
            metrics.FALLBACKS.labels(ROLE, "not-counted").inc()
            log.warning("%s: its tokens are not counted: %r", wanted.job.classified.request.request_id, error)
            return letters

    def _rejected(self, wanted: Wanted, reason: str, code: str, param: str = "") -> list[Outgoing]:
        outcome = rejected(wanted.job, reason=reason, by=ROLE, now_ms=now_ms(), code=code, param=param)
        record = outcome_record(outcome, wanted.taken.record.headers, now_ms())
        return self._writable(record, wanted.taken, wanted.job)

    def _end_too_late(self, wanted: Wanted) -> list[Outgoing] | None:
        """What ends a job that would be too late, or sends it on to a cheaper level; None: it is in time."""
        due, took_ms = self._due(wanted.job), resolved_ms(self._variant, wanted.how)
        if self.logic.is_in_time(due.at_ms, took_ms, self._besides_ms(wanted), now_ms()):
            return None
        reason = f"{self._variant.name} would have finished after {due.name} {due.at_ms:.0f}"
        other = None if wanted.job.path else self._refuge(wanted.job)
        if other is not None:
            return self._sent_on(wanted, other, reason)
        if due.is_soft and not wanted.job.path:
            return None
        outcome = too_late(wanted.job, reason=reason, by=ROLE, now_ms=now_ms())
        late = outcome_record(outcome, wanted.taken.record.headers, now_ms())
        return self._writable(late, wanted.taken, wanted.job)

    def _sent_on(self, wanted: Wanted, other: GenerateJob, reason: str) -> list[Outgoing]:
        """The job for another level's queue, from which its router forwards it, and the note that says so."""
        metrics.FALLBACKS.labels(ROLE, "too-late").inc()
        detail = {"from": wanted.job.level, "to": other.level, "reason": reason}
        self._note(event_record(other.classified.request.request_id, EventKind.REROUTED, ROLE, now_ms(), **detail))
        record = waiting_record(other, wanted.taken.record.headers, ROLE, now_ms())
        return self._writable(record, wanted.taken, wanted.job)

    def _lacking_ms(self, wanted: Wanted) -> float:
        """Time to load what the device lacks of a job's components, in ms."""
        store, chosen = self._engine.store, wanted.how.components
        if store is None or not chosen.base:
            return 0.0
        request = requested(chosen)
        return store.lacking_ms(request.ids, combination(request.base, request.adapters) or "")

    def _with_drafts(self, wanted: Wanted) -> Wanted:
        """The job with the drafts that it refines, or from noise where that cannot be."""
        if not wanted.job.refine_from_step:
            return wanted
        try:
            if not wanted.how.refine_from_step:
                raise NoDraft("steps", f"step {wanted.job.refine_from_step} of {wanted.how.steps} leaves none to take")
            if wanted.attempt > 1:
                raise NoDraft("retry", "an earlier attempt did not end well")
            return wanted._replace(drafts=self._pictures.drafts(wanted.job, wanted.how))
        except NoDraft as error:
            return _on_blank(wanted, error.kind, error)

    def _with_latents(self, wanted: list[Wanted]) -> list[Wanted]:
        """The jobs with the latents that they begin from; looked up together, as far as the plan asks for it."""
        terms = self._reuse.terms() if self._reuse is not None and wanted else None
        if terms is None or self._reuse is None or self._variant.bases:  # latents of several bases are not told apart
            return wanted
        sought = [self._sought(each) for each in wanted]
        begun = self._reuse.find(sought, terms, self._engine.latent_space, meanwhile=lambda: self._encode(wanted))
        return [each.begun(how) for each, how in zip(wanted, begun, strict=True)]

    def _encode(self, wanted: Sequence[Wanted]) -> None:
        """Encode the prompts of the calls that a batch is made in, unless its jobs begin at different steps."""
        for group in grouped(wanted):
            tasks = [task for each in group for task in each.tasks()]
            try:
                encoded = self._engine.encode(tasks, group[0].how)
            except Exception as error:  # whatever a model and its libraries raise: the call will, and answers for it
                log.debug("prompts are encoded within their call: %r", error)
                continue
            if encoded is not None:
                self._encoded.append(encoded)

    def _sought(self, wanted: Wanted) -> Sought:
        request, job, how = wanted.job.classified.request, wanted.job, wanted.how
        asked = job_of(
            request, self._variant, how, job.reuse_share, has_draft=bool(wanted.drafts), attempt=wanted.attempt
        )
        return Sought(job=asked, tenant=request.tenant, width=how.width, height=how.height)

    def _stores_latent(self, wanted: Wanted) -> bool:
        if self._variant.bases or wanted.how.components != NOTHING:
            return False
        return self._reuse is not None and self._reuse.stores(wanted.job, self._variant, wanted.decision)

    def _call(self, wanted: Sequence[Wanted]) -> Generated | None:
        """The images of jobs that share a call; None where nobody wants any of them any more."""
        tasks = [task for each in wanted for task in each.tasks()]
        stores = any(self._stores_latent(each) for each in wanted)

        def is_dead() -> bool:
            return all(self._is_dead(each.job) for each in wanted)

        how = wanted[0].how
        encoded = next((encoded for encoded in self._encoded if encoded.are_of(tasks, how)), None)
        more: dict[str, Any] = {"wants_latents": True} if stores else {}
        if encoded is not None:
            more["encoded"] = encoded
        if previews := self._previews_of(wanted):
            more["previews"] = previews
        return self._engine.generate(tasks, how, is_dead, **more)

    def _previews_of(self, wanted: Sequence[Wanted]) -> Previews | None:
        """Return the previews of a call: each job that asks for them gets those of its first image.

        A job whose image is judged gets none: its draft shows more than the steps do, and comes at their end.
        """
        if self._previews is None:
            return None
        asked: dict[int, tuple[GenerateJob, int]] = {}
        first = 0
        for each in wanted:
            headers = each.taken.record.headers
            if PREVIEWS in headers and (number := previews_of(headers)) and not self._judged_ms(each.job):
                asked[first] = each.job, number
            first += each.how.n
        show = self._previews.show
        wishes = {task: number for task, (_, number) in asked.items()}
        return Previews(wishes, lambda task, *seen: show(asked[task][0], *seen)) if asked else None

    def _generate(self, wanted: Sequence[Wanted]) -> list[Outgoing]:
        """Generate, in one call, jobs that are generated alike."""
        started = now_ms()
        for each in wanted:  # best effort: nobody waits for it
            self._note(self._started(each, started))
        self.logic.on_loading(self._lacking_ms(wanted[0]))
        try:
            pictures = self._call(wanted)
        except (CannotRefine, UnfitLatent) as error:
            if wanted[0].how.components.strength is not None:  # an image of its own is never left out
                return [record for each in wanted for record in self._rejected(each, str(error), UNHONOURED)]
            return self._generate([_on_blank(each, "engine", error) for each in wanted])
        except Exception as error:  # whatever a model and its libraries raise
            log.exception("generation failed")
            if len(wanted) > 1:  # one of them may be the cause: each alone
                return [record for each in wanted for record in self._generate([each])]
            return self._retry_or_fail(wanted[0], error)
        if pictures is None:
            metrics.DEAD_WORK.labels(ROLE).inc(len(wanted))
            return []
        times = GenerationTimes(started, now_ms(), len(wanted), pictures.times)
        self._learn_run_time(wanted, times)
        self._count(wanted, times)
        rest = iter(zip(pictures.images, pictures.latents, strict=True))
        shares = [list(islice(rest, each.how.n)) for each in wanted]
        alive = [(each, own) for each, own in zip(wanted, shares, strict=True) if not self._is_dead(each.job)]
        metrics.DEAD_WORK.labels(ROLE).inc(len(wanted) - len(alive))
        metrics.GENERATED.labels(wanted[0].begins_with).inc(len(wanted))
        for each in wanted:
            if self._reuse is not None and each.decision is not None:
                self._reuse.count(each.decision)
        return self._store(alive, times)

    def _count(self, wanted: Sequence[Wanted], times: GenerationTimes) -> None:
        """Count a call: how long its jobs waited, how many they were, and how long it took, by part."""
        variant = self._variant.name
        for each in wanted:
            waited_ms = max(0, times.started_ms - each.job.routed_ms)
            metrics.JOB_QUEUE_SECONDS.labels(variant).observe(waited_ms / 1000)
        metrics.BATCH_JOBS.labels(variant).observe(len(wanted))
        metrics.GENERATION_SECONDS.labels(variant).observe(max(0, times.generated_ms - times.started_ms) / 1000)
        if spans.recorder is not None:
            facts: dict[str, object] = {names.GENERATION: names.GENERATE, names.PROVIDER: "pochade"}
            facts |= {names.MODEL: variant, names.OUTPUT: "image", names.BATCH_JOBS: len(wanted)}
            records = [each.taken.record for each in wanted]
            spans.note(ROLE, records, f"{names.GENERATE} {variant}", times.started_ms, times.generated_ms, facts)
        if (parts := times.parts) is not None:
            taken_ms = {"load": parts.load_ms, "encode": parts.encode_ms, "denoise": parts.denoise_ms}
            for part, ms in {**taken_ms, "decode": parts.decode_ms}.items():
                metrics.GENERATION_PART_SECONDS.labels(part).observe(ms / 1000)

    def _learn_run_time(self, wanted: Sequence[Wanted], times: GenerationTimes) -> None:
        """Tell the worker's logic how long the call loaded components and then took, and what was profiled."""
        how = wanted[0].how._replace(n=sum(each.how.n for each in wanted))
        load_ms = times.parts.load_ms if times.parts is not None else 0.0
        self.logic.on_loaded(load_ms, len(wanted))
        self.logic.on_generated(times.generated_ms - times.started_ms - load_ms, resolved_ms(self._variant, how))

    def _started(self, wanted: Wanted, at_ms: int) -> Outgoing:
        job, how = wanted.job, wanted.how
        over = how.refine_from_step if wanted.latent is None else 0
        begun = {} if wanted.latent is None else {"reuse_step": how.refine_from_step}
        return event_record(
            job.classified.request.request_id, EventKind.STARTED, ROLE, at_ms, level=job.level, worker=self._worker_id,
            stage=job.stage, steps=how.steps, **{field_name("refine_from_step"): over}, **begun,
        )  # fmt: skip

    def _is_dead(self, job: GenerateJob) -> bool:
        return job.classified.request.request_id in self._ended

    def _store(
        self, made: Sequence[tuple[Wanted, Sequence[tuple[Image, Latent | None]]]], times: GenerationTimes
    ) -> list[Outgoing]:
        """The records of a call's images, once they are checked and stored, or of what ends those that may not be."""
        begun_s = time.monotonic()
        checked = [(each, self._checked(each, own)) for each, own in made]
        kept = iter(self._pictures.keep([safe for _, safe in checked if isinstance(safe, ToStore)]))
        for _ in made:
            metrics.STORE_SECONDS.observe(time.monotonic() - begun_s)
        answers = [
            self._image(each, next(kept), times) if isinstance(safe, ToStore) else safe for each, safe in checked
        ]
        return [record for answer in answers for record in answer]

    def _checked(self, wanted: Wanted, made: Sequence[tuple[Image, Latent | None]]) -> ToStore | list[Outgoing]:
        """What may be stored of a job's images, or what ends the job."""
        tenant, job_id = wanted.job.classified.request.tenant, wanted.job.job_id
        try:
            safe = self._check([picture for picture, _ in made], tenant)
        except Blocked as error:
            return self._rejected(wanted, str(error), UNSAFE)
        except Exception as error:  # whatever a model raises: what could not be checked is not shown
            log.exception("safety check failed")
            return self._retry_or_fail(wanted, error)
        latent = made[0][1] if self._stores_latent(wanted) and safe[0].is_as_generated else None
        return ToStore(job_id, safe, latent, latent_name(tenant, job_id))

    def _image(self, wanted: Wanted, kept: Stored, times: GenerationTimes) -> list[Outgoing]:
        taken, job, decision, (first, *more) = wanted.taken, wanted.job, wanted.decision, kept.images
        overridden = tuple(dict.fromkeys((*job.overridden, *wanted.changed)))  # it may be generated again
        image = ImageGenerated(
            job=dataclasses.replace(job, overridden=overridden), image=first,
            worker_id=self._worker_id, batch=times.batch, attempt=wanted.attempt,
            started_ms=times.started_ms, generated_ms=times.generated_ms, stored_ms=now_ms(), more=tuple(more),
            refine_from_step=wanted.how.refine_from_step if wanted.latent is None else 0,
            reuse=None if decision is None else described(decision, wanted.how.steps), latent=kept.latent,
            components=wanted.how.components.ids, times=times.parts,
        )  # fmt: skip
        record = outgoing(
            topics.IMAGES, image, request_id=job.classified.request.request_id, cause=taken.record.headers, role=ROLE,
            now_ms=now_ms(), facts={"worker": self._worker_id, "sha256": first.sha256},
        )  # fmt: skip
        return self._writable(record, taken, job)

    def _retry_or_fail(self, wanted: Wanted, error: Exception) -> list[Outgoing]:
        taken, job, attempt = wanted.taken, wanted.job, wanted.attempt
        if attempt >= self._max_attempts:
            return self._failed(taken, job, error)
        metrics.FALLBACKS.labels(ROLE, "retry").inc()
        again = job_record(dataclasses.replace(job, attempt=attempt + 1), None, taken.record.headers, ROLE, now_ms())
        return self._writable(again, taken, job)

    def _writable(self, record: Outgoing, taken: Taken, job: GenerateJob) -> list[Outgoing]:
        """The record, or what ends the request where no topic takes it: a worker would try that for ever."""
        try:
            LIMITS.check(record)
        except RecordTooLarge as error:
            return self._failed(taken, job, error)
        return [record]

    def _failed(self, taken: Taken, job: GenerateJob | None, error: Exception) -> list[Outgoing]:
        reason = f"{type(error).__name__}: {error}"
        outcome = failed(job or request_id_of(taken.record), reason=reason, by=ROLE, now_ms=now_ms())
        return list(refused(taken.record, outcome, error, now_ms()))


def _on_blank(wanted: Wanted, kind: str, why: Exception) -> Wanted:
    if wanted.latent is not None:
        log.warning("%s begins from noise, not from a latent: %s", wanted.job.classified.request.request_id, why)
        return wanted.on_blank()
    metrics.FALLBACKS.labels(ROLE, f"paint-over-{kind}").inc()
    log.warning("%s is generated from noise, not over its draft: %s", wanted.job.classified.request.request_id, why)
    return wanted.on_blank()

"""A worker's jobs, and what the decisions on them read: the plan, the views, the engine."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from PIL.Image import Image

from agents.engines import GenerationTask, OpenedEngine
from agents.runtime.request_views import PoisonView
from agents.runtime.views import EndedView
from agents.worker.images import Inputs, Storing
from agents.worker.jobs import Taken
from agents.worker.reuse import WorkerReuse
from planner.catalog.components import NOTHING
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.option_limits import MAX_IMAGES, check_options
from planner.catalog.options import ResolvedOptions, job_options, read_as_letters, resolved_ms
from planner.components.demand.combinations import combination
from planner.components.from_catalog import requested
from planner.reuse.neighbour import Miss
from planner.reuse.steps import Decision, FullRun, Reuse
from planner.serving.admission.admission import SEED_LIMIT
from planner.serving.admission.inputs import inputs_of
from planner.serving.decisions import Rejection, draft_counts
from planner.serving.dispatch.worker_loads import Load
from planner.serving.generating.window import refusal_of
from planner.serving.routing.cascades import judged_ms
from schemas.ids import refinement_seed, seed_of
from schemas.messages import CallTimes, ClassifiedRequest, GenerateJob, GenerateRequest, Made, Plan
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.codec.headers import ANY_FORM
from streams.store.latents import Latent

log = logging.getLogger(__name__)

ROLE = "worker"


def image_seeds(request: GenerateRequest) -> list[int]:
    """Return the noise seeds of a request's images: consecutive ones, from its own or one of its id."""
    first = seed_of(request.request_id) if request.seed is None else request.seed
    return [(first + number) % SEED_LIMIT for number in range(request.options.n)]


@dataclass(slots=True)
class GenerationTimes:
    """The times of a call, in epoch ms."""

    started_ms: int
    generated_ms: int
    batch: int  # jobs that were generated side by side: those of the call, and of others that ran meanwhile
    parts: CallTimes | None = None  # what it did in that time


@dataclass(slots=True, eq=False)
class WorkerJob:
    """A job in a worker's hands; what is opened, decided and generated for it is put into it."""

    taken: Taken
    job: GenerateJob
    how: ResolvedOptions
    is_blank: bool = False  # it begins from noise, whatever it was to begin with
    drafts: tuple[Image, ...] = ()  # one an image where how.refine_from_step > 0 over drafts, else none
    decision: Decision | None = None  # to begin from a stored latent, or why not; None: the plan asks for no reuse
    latent: Latent | None = None  # where how.refine_from_step > 0 of a stored latent
    inputs: Inputs | None = None  # the images that the request names; None: not opened yet
    changed: tuple[str, ...] = ()  # of its prompts and images, as `overridden` has it
    made: Sequence[tuple[Image, Latent | None]] = ()  # by its call
    times: GenerationTimes = field(default_factory=lambda: GenerationTimes(0, 0, 1))
    made_s: float = 0.0  # monotonic seconds, when its call had ended
    storing: Storing | None = None  # what of it is stored; None: not checked yet

    @property
    def request(self) -> GenerateRequest:
        """The client's request."""
        return self.job.classified.request

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self.job.job_id

    @property
    def classified(self) -> ClassifiedRequest:
        """The classified request."""
        return self.job.classified

    @property
    def level(self) -> str:
        """The level that it was sent to."""
        return self.job.level

    @property
    def routed_ms(self) -> float:
        """When it was sent there."""
        return self.job.routed_ms

    @property
    def owners(self) -> int:
        """Number of workers that had it in hand, this one included: the others died, or their devices failed."""
        return self.taken.attempt + self.job.deaths

    @property
    def attempts(self) -> int:
        """Number of attempts at it, this one included."""
        return max(self.taken.attempt, self.job.attempt)

    @property
    def has_draft(self) -> bool:
        """Whether an image of its request was made that is its answer if this one cannot come."""
        return bool(self.job.path) and draft_counts(self.job.classified.request.options)

    @property
    def refines(self) -> bool:
        """Whether it is to begin with that draft."""
        return self.job.refine_from_step > 0 and not self.is_blank

    @property
    def begins_with(self) -> str:
        """What it begins with: noise, draft or latent."""
        return "latent" if self.latent is not None else "draft" if self.how.refine_from_step else "noise"

    def begin(self, decision: Decision, latent: Latent | None) -> None:
        """Begin as a lookup has found: from a stored latent, at a step of its own, or as it is."""
        self.decision, self.latent = decision, latent
        if isinstance(decision, Reuse):
            self.how = self.how._replace(refine_from_step=decision.step)

    def begin_on_blank(self) -> None:
        """Begin from noise in place of a draft or a latent."""
        self.is_blank, self.drafts, self.latent = True, (), None
        self.how = self.how._replace(refine_from_step=0)
        if isinstance(self.decision, Reuse):
            self.decision = FullRun(Miss.ENGINE)

    def tasks(self) -> list[GenerationTask]:
        """Return one task per image: consecutive seeds for n > 1; other noise than the draft's for refining."""
        request, inputs = self.request, self.inputs or Inputs()
        seeds = image_seeds(request)
        over: list[Image | Latent | None] = list(self.drafts) or [self.latent] * len(seeds)
        return [
            GenerationTask(
                request_id=request.request_id,
                prompt=request.prompt,
                seed=seed if begin is None else refinement_seed(seed, self.job.stage),
                over=begin,
                controls=inputs.controls,
                image=inputs.image,
                mask=inputs.mask,
                deadline_ms=request.deadline_ms,
            )
            for seed, begin in zip(seeds, over, strict=True)
        ]


def read_job(taken: Taken, variant: Variant) -> WorkerJob:
    """Return the job of a record. Raises PochadeError: it cannot be read, or is not allowed."""
    job = decode(taken.record.value, GenerateJob)
    check_options(job.classified.request, MAX_IMAGES)  # who wrote it may not have
    return WorkerJob(taken, job, job_options(job, variant))


class WorkerViews:
    """What `WindowLogic` asks of a live worker's jobs while it serves one variant."""

    def __init__(
        self, engine: OpenedEngine, variant: Variant, catalog: Catalog, plan: Callable[[], Plan | None],
        ended: EndedView, poison: PoisonView, reuse: WorkerReuse | None = None, worker_id: str = "",
        loads: Callable[[str, int], Sequence[Load]] = lambda _variant, _now_ms: (), price_per_hour: float = 0.0,
    ) -> None:  # fmt: skip
        """`plan`: the one in force. `reuse`: None: nothing begins from stored latents.

        `loads`: the workers that take jobs of a variant now. `price_per_hour`: of this one; 0: not stated.
        """
        self._price_per_hour = price_per_hour
        self._worker_id, self._loads = worker_id, loads
        self.engine, self.variant, self._catalog = engine, variant, catalog
        self._plan, self._ended, self.poison, self.reuse = plan, ended, poison, reuse

    def plan(self) -> Plan | None:
        """Return the plan in force; None: none has come."""
        return self._plan()

    def has_ended(self, job: WorkerJob) -> bool:
        """Whether the request has its result."""
        return job.taken.has_ended or job.request.request_id in self._ended

    def refusal(self, job: WorkerJob) -> Rejection | None:
        """Return why the request is refused; None: it is not."""
        return refusal_of(job.request.options, self.variant.offer, self.poison.equal_to(job.request, now_ms()))

    def has_objects(self, job: WorkerJob) -> bool:
        """Whether the job begins with images of the store."""
        return job.refines or any(inputs_of(job.request.options))

    def changes(self, job: WorkerJob) -> Sequence[str]:
        """Return what is changed of the prompts and images, as far as a strict request does not allow it."""
        cuts = self._cuts(job)
        job.changed = cuts if job.inputs is None else (*cuts, *job.inputs.changed)
        return cuts if ANY_FORM in job.taken.record.headers else job.changed

    def _cuts(self, job: WorkerJob) -> tuple[str, ...]:
        """Return what is not read of a job's prompts, or not as it is meant."""
        prompt = job.request.prompt
        letters = (*read_as_letters(prompt), *self._no_seed(job))
        try:
            return (*letters, *self.engine.cuts(prompt, job.how.negative_prompt))
        except Exception as error:  # whatever a tokenizer raises: the call will, and answers for it
            metrics.FALLBACKS.labels(ROLE, "not-counted").inc()
            log.warning("%s: its tokens are not counted: %r", job.request.request_id, error)
            return letters

    def _no_seed(self, job: WorkerJob) -> tuple[str, ...]:
        seed = job.request.seed
        return () if seed is None or self._takes_seeds else (f"seed: {seed} -> the server's own",)

    @property
    def _takes_seeds(self) -> bool:
        return self.variant.server is None or "seed" in self.variant.server.names

    def made(self, job: WorkerJob) -> Made:
        """Return how a job's images were made."""
        how, used = job.how, self.engine.made_with(job.how)
        return Made(
            variant=self.variant.name, seed=image_seeds(job.request)[0] if self._takes_seeds else None, steps=how.steps,
            guidance=how.guidance, width=how.width, height=how.height, negative_prompt=how.negative_prompt,
            begins_with="image" if self.begins_with_own_image(job) else job.begins_with, from_step=how.refine_from_step,
            strength=how.components.strength, scheduler=used.scheduler, model=used.model,
            weights=dict.fromkeys(how.components.ids, "") | dict(used.weights),
            engine=used.engine or self.variant.engine, device=used.device, dtype=used.dtype,
            price_per_hour=self._price_per_hour,
        )  # fmt: skip

    def looks_up(self) -> bool:
        """Whether stored latents are looked up; those of several bases are not distinguished."""
        return not self.variant.bases and self.reuse is not None and self.reuse.terms() is not None

    def key(self, job: WorkerJob) -> tuple[str, ResolvedOptions]:
        """Return what is equal in a call: size, steps, guidance and first step, and the kind of beginning."""
        return job.begins_with, job.how._replace(n=1, overridden=())

    def run_ms(self, job: WorkerJob) -> float:
        """Return the profiled time of a job in a call of its own."""
        return resolved_ms(self.variant, job.how)

    def call_ms(self, jobs: Sequence[WorkerJob]) -> float:
        """Return the profiled time of a call."""
        return resolved_ms(self.variant, jobs[0].how._replace(n=sum(each.how.n for each in jobs)))

    def judged_ms(self, job: WorkerJob) -> float:
        """Return how long judging takes, from generated to judged; 0 where its image is not judged."""
        plan = self._plan()
        return judged_ms(plan, job.classified, job.level, self._catalog) if plan else 0.0

    def lacking_ms(self, job: WorkerJob) -> float:
        """Return the time to load what the device lacks of the job's components."""
        store, chosen = self.engine.store, job.how.components
        if store is None or not chosen.base:
            return 0.0
        request = requested(chosen)
        return store.lacking_ms(request.ids, combination(request.base, request.adapters) or "")

    def size(self, job: WorkerJob) -> tuple[int, int]:
        """Return the pixels of an image of the job, and the number of its images."""
        return job.how.width * job.how.height, job.how.n

    def has_failed_here(self, job: WorkerJob) -> bool:
        """Whether a call with the job has failed on this worker before."""
        return self._worker_id in job.job.failed_on

    def can_go_elsewhere(self, job: WorkerJob) -> bool:
        """Whether another worker takes jobs of the level, none of whose calls has failed with this one."""
        return self.elsewhere(job) is not None

    def elsewhere(self, job: WorkerJob) -> Load | None:
        """Return the least loaded of these workers; None if there is none."""
        tried = {*job.job.failed_on, self._worker_id}
        others = (each for each in self._loads(self.variant.name, now_ms()) if each.worker_id not in tried)
        return min(others, key=lambda each: each.remaining_ms, default=None)

    def begins_with_own_image(self, job: WorkerJob) -> bool:
        """Whether the request names the image that it begins with."""
        return job.how.components.strength is not None

    def on_blank(self, job: WorkerJob, kind: str, why: str) -> None:
        """Let a job begin from noise; a draft that is left out counts as a fallback."""
        if job.latent is not None:
            log.warning("%s begins from noise, not from a latent: %s", job.request.request_id, why)
        else:
            metrics.FALLBACKS.labels(ROLE, f"paint-over-{kind}").inc()
            log.warning("%s is generated from noise, not over its draft: %s", job.request.request_id, why)
        job.begin_on_blank()

    def stores_latent(self, job: WorkerJob) -> bool:
        """Whether the job's latent is stored, if the engine gives one: of one base without components."""
        if self.reuse is None or self.variant.bases or job.how.components != NOTHING:
            return False
        return self.reuse.stores(job.job, self.variant, job.decision)

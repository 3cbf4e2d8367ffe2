"""The messages on the topics: frozen values, the only contract between processes.

Past participles are events, nouns are commands. Times are epoch milliseconds, durations milliseconds.
A field added later needs a default, so that old bytes can still be read (`schemas/registry.py` holds every version).
"""

from dataclasses import MISSING, dataclass, field
from enum import StrEnum
from typing import Final

from schemas.option_fields import option


class Status(StrEnum):
    """Final status of a request; each request gets exactly one."""

    COMPLETED = "COMPLETED"
    REJECTED = "REJECTED"  # the request itself asks for what is never served
    EXPIRED = "EXPIRED"  # its deadline could not be met
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"  # it could not be read, or not be generated


TIERS: Final = ("interactive", "standard", "batch")  # from the one served first
PIXELS: Final = {"low": 8, "high": 4096, "multiple_of": 8, "unit": "px", "honoured": True, "aliases": ("size",)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Options of the generation of an image; None or empty: the variant's default. Declared by `option_fields.py`."""

    # fmt: off
    n: int = option(1, "Number of images of the prompt, in one request; the deployment's setting requests.max_images "
        "may allow more, or fewer.", low=1, high=8, aliases=("num_outputs",))
    width: int | None = option(None, "Width of the image in pixels.", **PIXELS)
    height: int | None = option(None, "Height of the image in pixels.", **PIXELS)
    steps: int | None = option(None, "Number of denoising steps (default: the variant's).", low=1, high=200,
        honoured=True, aliases=("num_inference_steps",))
    guidance: float | None = option(None, "Scale of classifier-free guidance (default: the variant's).", low=0, high=50,
        honoured=True, aliases=("guidance_scale",))
    negative_prompt: str = option("", "What should not be in the image.", honoured=True)
    model: str = option("", "Name of the variant, or of the base model, that generates the image.")
    adapters: tuple[str, ...] = option((), "Names of LoRA adapters to apply, at most six.", aliases=("adapter",))
    controls: tuple[str, ...] = option((), "Names of ControlNets to apply, at most four.", aliases=("control",))
    strict: bool = option(
        False, "Reject the request (REJECTED) instead of overriding an option that the variant cannot honour.")
    reuse: str = option("", "Whether the image may begin from a similar one of the same tenant, and be stored for "
        "that: own also with a seed, off never (default: without a seed only).", words=("off", "own"))
    adapter_weights: tuple[float, ...] = option(
        (), "Weight of each of the adapters, in their order (default: 1 each).", low=-4, high=4)
    control_images: tuple[str, ...] = option((), "URI of the image that each of the controls follows, in their order.")
    control_weights: tuple[float, ...] = option(
        (), "Weight of each of the controls, in their order (default: 1 each).", low=0, high=4)
    image: str = option("", "URI of the image to begin with instead of noise, as `pochade put` prints it.",
        placeholder="URI", honoured=True)
    strength: float | None = option(None, "Share of the denoising steps that change the image to begin with: near 0 "
        "keeps it, 1 replaces it (default: 0.8).", low=0, high=1, is_above_low=True, needs="image")
    mask: str = option("", "URI of the mask of the image to begin with, as `pochade put` prints it: only where it is "
        "white the image is generated anew.", placeholder="URI", honoured=True, needs="image")
    quality_at_least: float | None = option(None, "Share of images as good as the one that answers which must meet the "
        "catalog's standard, such as 0.9, with the confidence that the catalog states; a request for which no level "
        "promises that is REJECTED (default: any).", low=0, high=1, is_above_low=True)
    # fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """A producer's request for images. Public, on `prompts`; also as one plain JSON object with these keys."""

    # fmt: off
    request_id: str = option(MISSING, "Id of the request; a second one with it generates nothing (default: a new id).")
    prompt: str = option(MISSING, "What the image should show.")
    created_ms: int
    deadline_ms: int | None = option(None, "Moment by which it must have ended, in ms since 1970; past it the request "
        "ends as EXPIRED (default: none).", aliases=("deadline_in_ms",))
    seed: int | None = option(None, "Seed of the noise: the same prompt, options and seed give the same image "
        "(default: by the id).")
    tenant: str = option("default", "Tenant that the request is charged to.")
    quality: str = option("auto", "Quality to ask for, among the levels that honour the other options. low: the "
        "cheapest level, whose image is kept; medium: the cheapest level first, then the next one where the image is "
        "too poor; high: the best level; auto: the levels that the plan chooses. Where the level has no worker, the "
        "nearest one that has serves the request, unless it is strict.", words=("low", "medium", "high", "auto"))
    tier: str = option("standard", "Priority: interactive goes before standard; batch is served only when there is "
        "room.", words=TIERS, aliases=("priority",))
    options: GenerateOptions = GenerateOptions()
    # fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedRequest:
    """A request with its hardness and classes, as predicted from the prompt alone."""

    request: GenerateRequest
    hardness: float  # [0, 1], quantile on the reference prompts
    classes: dict[str, str]  # strategy -> the level believed optimal
    classifier: str  # name and version of what judged
    received_ms: int  # broker time of the prompt's record
    classified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRef:
    """A stored image; the key carries the content's hash and is never overwritten."""

    uri: str
    sha256: str
    width: int  # px
    height: int  # px
    bytes: int
    unsafe: float | None = None  # probability that it shows what it must not; None: it was not checked
    safety: str = ""  # flag | blur: what was done about that, as its tenant has it; "": nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentRef:
    """A stored latent: what the denoising of an image ended in; its key carries the content's hash."""

    uri: str
    sha256: str
    bytes: int
    autoencoder: str  # digest of the one that decodes it


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReuse:
    """Whether a stage began from a stored latent, never whose; there where the plan asks for reuse."""

    step: int = 0  # of `steps`: skipped; 0: all were run
    steps: int = 0  # of the job
    similarity: float | None = None  # cosine of both prompts; None: none was used
    miss: str = ""  # why all steps were run, in a word: of `planner/reuse/neighbour.py`; "": they were not


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTimes:
    """The time that an engine's call took, by what it did; a batch's is shared by its jobs."""

    load_ms: float = 0.0  # of components that were not resident, and of adapters that were applied
    encode_ms: float = 0.0  # prompts, and the images to begin with
    denoise_ms: float = 0.0  # all steps, and what is left beside the others
    decode_ms: float = 0.0  # latents to pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisedQuality:
    """What was promised of an image when it was kept: of images like it, of prompts as hard, so many are wrong at most.

    Alike are those that its level's discriminator keeps at the same threshold; if it was not scored, all of its level.
    """

    wrong_at_most: float  # share, [0, 1]
    confidence: float  # with which that holds
    images: int  # that were judged
    date: str  # on which, as 2026-11-29
    standard: str  # what makes an image right, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How an image was made, beside its prompt and what it begins with: enough to make it again. "": not known."""

    variant: str  # that made it
    seed: int | None  # of the first image; others of n > 1 have the next ones; None: a server drew its own
    steps: int  # of which the first `from_step` were skipped
    guidance: float
    width: int  # px
    height: int  # px
    negative_prompt: str = ""
    begins_with: str = "noise"  # noise | image: that the request names | draft | latent: of an earlier image
    from_step: int = 0  # where it began over a draft or a latent
    strength: float | None = None  # with which it changes the image that the request names
    scheduler: str = ""  # its class
    model: str = ""  # hub id with its commit
    weights: dict[str, str] = field(default_factory=dict)  # "model", "adapter:candy@0.8" -> sha-256 of its weight files
    engine: str = ""  # with versions, such as "diffusers 0.36.0, torch 2.9.1"
    device: str = ""  # its kind: cpu, cuda, mps
    dtype: str = ""  # precision, such as float32
    price_per_hour: float = 0.0  # of its worker, in a currency of the operator's own; 0: not stated


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage of a request's path, as `explain` shows it."""

    stage: int  # 0: first level, 1: after one escalation
    level: str
    worker_id: str
    plan_version: int
    queue_ms: int  # routed -> generation began
    generate_ms: int
    batch: int
    attempt: int
    confidence: float | None = None  # None: not scored
    threshold: float | None = None  # None: no cascade held for this level
    image: ImageRef | None = None
    more: tuple[ImageRef, ...] = ()  # the other images of n > 1
    overridden: tuple[str, ...] = ()  # options that the variant could not honour, with what it did instead
    refine_from_step: int = 0  # steps skipped, as it began with the draft of the stage before; 0: from noise
    probability: float = 0.0  # of this level under the plan; 0: not drawn (requested, lowered, escalated, older)
    discriminator: str = ""  # that gave the confidence
    reuse: StageReuse | None = None  # None: the plan asked for none
    latent: LatentRef | None = None  # of `image`; None: not stored
    components: tuple[str, ...] = ()  # "base:poster", "adapter:candy@0.8"; (): the variant's own model
    times: CallTimes | None = None  # None: an engine that does not report them, or an older release
    promise: PromisedQuality | None = None  # of a kept image; None: nothing is promised
    made: Made | None = None  # None: by an older release


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateJob:
    """A job for a variant's workers: generate a request's images at one stage, on one level."""

    job_id: str
    classified: ClassifiedRequest
    level: str
    variant: str
    stage: int
    attempt: int
    probability: float  # of the first level under the plan: history can evaluate another; 0: the plan did not draw it
    plan_version: int
    worker_id: str  # the worker it was meant for; "" when the variant had no owner
    routed_ms: int
    path: tuple[Stage, ...] = ()  # stages that were rejected before
    overridden: tuple[str, ...] = ()
    refine_from_step: int = 0  # of this job's steps: begin there, with the images of path[-1]; 0: from noise
    reuse_share: float = 0.0  # of this job's steps, [0, 1): that a stored latent may save; 0: the level asks for none
    honoured: tuple[str, ...] | None = None  # options generated as stated; None: who reads an older job resolves them
    failed_on: tuple[str, ...] = ()  # workers whose calls with it have failed: it is sent to others while there are any
    deaths: int = 0  # of `failed_on`, workers whose device failed with it


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGenerated:
    """A worker generated and stored an image."""

    job: GenerateJob
    image: ImageRef
    worker_id: str
    batch: int
    attempt: int
    started_ms: int
    generated_ms: int
    stored_ms: int
    more: tuple[ImageRef, ...] = ()  # the other images of n > 1
    refine_from_step: int = 0  # where it really began: 0 where the draft could not be refined
    reuse: StageReuse | None = None  # None: the plan asked for none
    latent: LatentRef | None = None  # of `image`; None: not stored
    components: tuple[str, ...] = ()  # "base:poster", "adapter:candy@0.8"; (): the variant's own model
    times: CallTimes | None = None  # None: an engine that does not report them, or an older release
    made: Made | None = None  # None: by an older release


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A role's report of how a request ended. May repeat; the ledger makes a result of the first one."""

    request_id: str
    status: Status
    reason: str
    by: str  # the role that said it
    ended_ms: int
    request: GenerateRequest | None = None  # None: it could not be read
    classified: ClassifiedRequest | None = None
    path: tuple[Stage, ...] = ()
    policy: str = ""
    code: str = ""  # for machines: invalid | unhonoured | overloaded | quota | shed | deadline | unserved | poison ...
    retry_after_ms: int | None = None
    param: str = ""  # field of the request that it was REJECTED for; "": none, or several


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The end of a request: exactly one per request_id for read_committed readers. Public and flat."""

    request_id: str
    status: Status
    reason: str
    prompt: str
    tenant: str  # "": not known, as its record could not be read as a request
    image_uri: str | None
    image_sha256: str | None
    width: int | None
    height: int | None
    level: str | None
    worker_id: str | None
    policy: str
    plan_version: int | None
    hardness: float | None
    class_models: str | None
    confidence: float | None
    threshold: float | None
    escalated: bool
    generate_ms: int  # worker time of all stages, a batch's shared equally
    latency_ms: int | None  # created -> ended
    created_ms: int | None
    ended_ms: int
    path: str = "[]"  # JSON list of stages: what `explain` shows
    image_uris: tuple[str, ...] = ()  # all images of n > 1, `image_uri` first
    overridden: tuple[str, ...] = ()  # options the variant could not honour
    code: str = ""  # why in one word, for machines; "" where COMPLETED
    retry_after_ms: int | None = None  # REJECTED for now: when it may be worth asking again
    reused: bool = False  # it began from a stored latent of an earlier image; whose is not recorded
    reuse_step: int | None = None  # of its steps: skipped; None: not reused
    similarity: float | None = None  # cosine of both prompts; None: not reused
    reuse_miss: str = ""  # why it was not reused, in a word; "": it was, or the plan asked for no reuse
    components: tuple[str, ...] = ()  # of the image: "base:poster", "adapter:candy@0.8"; (): the level's own model
    load_ms: float | None = None  # of `generate_ms`: components that were not resident; None: not measured, as below
    encode_ms: float | None = None  # of `generate_ms`: prompts, and images to begin with
    denoise_ms: float | None = None  # of `generate_ms`: all steps
    decode_ms: float | None = None  # of `generate_ms`: latents to pixels
    unsafe: float | None = None  # highest score of its images by the safety check; None: they were not checked
    safety: str = ""  # flag | blur: what was done about it; "": nothing. A blocked image is REJECTED `unsafe`
    param: str = ""  # field of the request that it was REJECTED for, such as seed; "": none, or several
    wrong_at_most: float | None = None  # of images kept as this one, as `path` says of its last stage; None: no promise
    made: Made | None = None  # how its images were made; None: there are none, or an older release made them
    cost: float | None = None  # of `generate_ms`, by its workers' prices; None: one has none, or nothing was made


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedChunk:
    """A summary of one partition of `results` between two offsets, so that a starting ledger need not read it again.

    A fact about committed results: it may repeat, and any writer may have written it. `open` are the requests with a
    deadline that lay on the same partition of `classified` before `classified_offset`, and were open at `end_offset`.
    """

    partition: int
    results_topic: str  # Kafka's id: offsets of a topic that was made anew mean something else; "": unknown
    first_offset: int
    end_offset: int  # exclusive
    oldest_ms: int  # of the results, by the broker's clock
    newest_ms: int
    digests: bytes  # of the ids, 12 bytes each (`planner/serving/ending/ended_ids.py`)
    classified_topic: str
    classified_offset: int  # -1: unknown
    open: bytes  # 28 bytes each (`agents/ledger/open_requests.py`)


class EventKind(StrEnum):
    """An event of a request."""

    STARTED = "started"  # a worker generates it
    ESCALATED = "escalated"  # its draft was rejected, and it goes on to the next level
    REROUTED = "rerouted"  # it goes on to another level, as its own would be late or has no worker
    PREVIEW = "preview"  # an image of a step can be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A small note on the way of a request; best effort."""

    request_id: str
    kind: str  # an EventKind; a newer release may have others
    at_ms: int
    by: str
    detail: str = "{}"  # JSON object


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPartition:
    """The work that a worker has left in one partition of its job topic."""

    partition: int
    end_offset: int  # log end when the worker looked: later sends are not in remaining_ms
    remaining_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseHealth:
    """A worker's lookups of latents to begin from: of the last few where nothing else is said."""

    breaker: str  # closed | failing
    lookups: int  # looked back on
    unanswered: float  # share of them that failed or were cut by their deadline
    p50_ms: float  # that a lookup costs its job: until its answer or deadline, less the text encoding beside it
    p95_ms: float
    hits: int = 0  # since start
    misses: dict[str, int] = field(default_factory=dict)  # since start: why -> jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerComponents:
    """The components of a worker by tier: remote, volume, host, device. Counters are since start."""

    held: dict[str, tuple[str, ...]] = field(default_factory=dict)  # tier -> component ids
    held_bytes: dict[str, int] = field(default_factory=dict)  # tier -> bytes
    budget_bytes: dict[str, int] = field(default_factory=dict)  # tier -> most bytes
    hits: dict[str, int] = field(default_factory=dict)  # nearest tier that held it -> components of jobs
    moved_bytes: dict[str, int] = field(default_factory=dict)  # tier moved into -> bytes
    loads: int = 0  # components that a job waited for


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDevice:
    """The device of a worker, and its driver's newest readings: of the whole device, whoever uses it."""

    device: str  # as the worker's engine names it: cpu, mps, cuda, cuda:N; in its process alone
    index: int = -1  # on its machine, as nvidia-smi counts; -1: unknown
    uuid: str = ""  # as `nvidia-smi -L` shows it; "": unknown, as the fields below
    model: str = ""
    used_bytes: int | None = None
    free_bytes: int | None = None
    temperature_c: int | None = None
    utilisation: float | None = None  # [0, 1]: share of the last second or less in which it computed
    age_ms: int = 0  # of the readings; more than some seconds: its driver does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A worker's report of its state and its remaining work; a worker without heartbeats counts as dead."""

    worker_id: str
    state: str  # starting | loading | ready | painting | draining | hanging | failed | sick | stopped
    variant: str  # "" while it has none
    plan_version: int  # the newest plan it obeys
    sent_ms: int
    partitions: tuple[OwnedPartition, ...] = ()
    generated: int = 0  # jobs since start
    detail: str = ""  # why it failed or is sick; of one that serves, the sizes that its memory is too small for
    reuse: ReuseHealth | None = None  # None: no plan has asked this worker for reuse
    components: WorkerComponents | None = None  # None: its variant's catalog entry lists none
    slowness: float = 1.0  # run time of its last calls, as a multiple of what the catalog profiled; 1 until it knows
    device: WorkerDevice | None = None  # None: it uses none of its own, or has not begun to
    price_per_hour: float = 0.0  # in a currency of the operator's own; 0: not stated
    started_ms: int = 0  # of its process (epoch ms), which it tells from another under the same id; 0: not stated


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The first levels of a class or of a hardness interval. Source: ARGUS 4.3 (PASM row), HADIS 3.3 (threshold)."""

    levels: dict[str, float]  # level -> probability, sums to 1
    label: str = ""  # class it is for; "": by hardness
    hardness_from: float = 0.0  # inclusive
    hardness_to: float = 1.0  # exclusive, but 1.0 includes 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """Images of `level` below `threshold` are generated again on `next_level`. Source: DiffServe 3.1, HADIS 3.3.

    With `refine_from_step` K the rejected draft, noised to step K of the next level's steps N, is where that level
    begins, so that K of its steps are skipped: image-to-image at strength (N - K) / N. Source: SDEdit; here ours.
    """

    level: str
    next_level: str
    discriminator: str
    threshold: float  # kept if confidence >= threshold; 1 keeps nothing
    refine_from_step: int = 0  # [0, steps of next_level), of its own number of steps; 0: generate from noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The planner's expectation of a plan, to be compared with the outcome."""

    demand_rps: float
    utilization: float
    heavy_share: float
    quality: float | None = None
    quality_low: float | None = None  # of the 95 % interval of quality; None: the number of prompts is unknown
    quality_high: float | None = None
    quality_prompts: int | None = None  # that quality was measured on; None: unknown
    evidence: str = ""  # the measurements that the choices rest on, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """The requests that are admitted while no plan serves the whole demand."""

    shares: dict[str, float]  # tier -> share of its requests, [0, 1]; one that is not named: all
    reason: str  # given in the results of rejected requests
    retry_after_ms: int  # when they may ask again


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseFloor:
    """From this similarity on, this share of the steps may be skipped. Source: NIRVANA's table."""

    similarity: float  # cosine of both prompts, [-1, 1]
    share: float  # of a job's steps, [0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseGuard:
    """The share of the steps that may be skipped, by how the facts of both prompts compare; unnamed: none."""

    equal: float  # [0, 1), as the others
    style: float = 0.0  # they differ in style alone
    unsure: float = 0.0  # one was not understood
    differs: dict[str, float] = field(default_factory=dict)  # kind of difference -> share; of several the least


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseCheck:
    """Only images with a confidence above the threshold may be reused."""

    discriminator: str
    threshold: float = 0.0  # [0, 1)
    scored_share: float = 1.0  # [0, 1], of the images that no cascade scored: the index writer scores these


@dataclass(frozen=True, slots=True, kw_only=True)
class ReuseStorage:
    """The latents to store, and for how long."""

    share: float = 1.0  # [0, 1], of the images that may be stored
    ttl_s: float = 14_400.0  # > 0; nine of ten of MoDM's hits are on images of the last four hours
    max_bytes: int = 2**30  # of latents and rows, of all tenants
    eviction: str = "fifo"  # fifo | lcbfu: what leaves where the bytes are used up
    tenant_rps: float = 0.0  # latents a second of one tenant; 0: unlimited
    tenant_burst: float = 100.0  # latents at once after a silence


@dataclass(frozen=True, slots=True, kw_only=True)
class ReusePlan:
    """How far images may begin from stored latents of earlier ones. A level "heavy~k4" limits K to that of heavy."""

    floors: tuple[ReuseFloor, ...]  # rising; none: nothing is reused
    guard: ReuseGuard | None = None  # None: off, similarity alone decides
    check: ReuseCheck | None = None  # None: every image may be reused
    key: str = ""  # encoder of the prompts, of `agents/reuse/prompt_key.py`; "": its first
    storage: ReuseStorage = ReuseStorage()
    hits: dict[str, float] = field(default_factory=dict)  # level -> expected share of hits; unnamed: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidencyPlan:
    """The components that each worker should hold, with the lowest tier. Source: MLoRA 6.1."""

    workers: dict[str, dict[str, str]]  # worker_id -> component id -> tier: volume | host | device
    memory: str = "{}"  # JSON: what placement remembers, so that a restarted planner goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    """The wanted number of workers. Source: OctoAI, "Automatic scaling"."""

    targets: dict[str, int]  # variant -> workers
    wanted: dict[str, int] = field(default_factory=dict)  # variant -> workers by its load, without any limit
    reasons: dict[str, str] = field(default_factory=dict)  # variant -> a `Reason` of planner/scaling/scaling.py
    warm: int = 0  # started workers without a variant that are held ready besides
    memory: str = "{}"  # JSON: what scaling remembers, so that a restarted planner goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan that routers, workers and discriminators follow; every policy produces one."""

    version: int
    policy: str
    strategy: str  # "models" | "reuse"
    created_ms: int
    reason: str
    routes: tuple[Route, ...]
    cascades: tuple[Cascade, ...] = ()
    allocation: dict[str, str] = field(default_factory=dict)  # worker_id -> variant
    batch: dict[str, int] = field(default_factory=dict)  # variant -> most jobs at once
    dispatch: str = "least-work"
    expected: Expected | None = None
    memory: str = "{}"  # JSON: the policy's own state, so that a restarted planner goes on
    admission: Admission | None = None  # None: everything is let in
    reuse: ReusePlan | None = None  # None: nothing is looked up or stored
    residency: ResidencyPlan | None = None  # None: workers hold what their requests needed last
    scale: ScalePlan | None = None  # None: the fleet stays as it is
    quality_at_least: float = 0.0  # share right that is promised of what discriminators keep, by band; 0: none
    holds: bool = False  # jobs wait in their variant's queue until a worker is about to be idle, if `dispatch` can


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """An operator's order to use one policy until unpinned (`policy` = ""), or to go back to what a plan decided."""

    policy: str
    parameters: dict[str, float] = field(default_factory=dict)
    by: str = ""
    created_ms: int = 0
    plan_version: int = 0  # of the plan gone back to, `policy` being ""; 0: none


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """The record of a gateway client's key, without the key itself. The newest of a `key_id` is valid."""

    key_id: str  # first 16 hex digits of the digest: may be shown
    digest: str  # SHA-256 of the key, 64 hex digits
    tenant: str  # of every request that is made with it
    scopes: tuple[str, ...]  # generate | read, of the gateway; viewer | operator, of the console
    created_ms: int
    expires_ms: int | None = None  # from when on it is refused; None: never
    name: str = ""  # what its owner calls it
    by: str = ""  # user who created it
    revoked_ms: int | None = None  # None: it holds; a revoked key stays so


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The address for a request's events, and the events delivered there. The newest of a `request_id` is valid."""

    request_id: str
    tenant: str
    url: str  # may hold secrets of its owner: never logged
    events: tuple[str, ...]  # start | output | logs | completed
    base_url: str  # of the gateway that took the request: the prefix of addresses in events
    created_ms: int
    told: tuple[str, ...] = ()  # events that were delivered or given up; logs by the offset of their newest note
    pending: str = ""  # event whose delivery has failed so far; "" if none
    attempts: int = 0  # of the pending event that have failed
    next_ms: int = 0  # moment of its next attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonMark:
    """Marks the content of a request that ended its workers: digest = HMAC-SHA256(salt, tenant, prompt, options)."""

    salt: str  # hexadecimal, of this mark alone
    digest: str  # hexadecimal


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """A change by the console or a command. Written before it is done, and again with its outcome."""

    action_id: str
    by: str  # id of the API key; "local" where the console asks for none; "command line": a command of `pochade`
    name: str  # of that key, or of the user whose process the console or the command is
    action: str  # submit | cancel | redrive | pin | unpin | rollback | audit | simulate | estimate
    subject: str  # request, policy, plan version, or positions on the dlq
    at_ms: int
    detail: str = "{}"  # JSON object of what was asked for; never a prompt
    outcome: str = ""  # how it ended, in a sentence; "": it was begun

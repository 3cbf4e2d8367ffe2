"""The entries of a catalog: variants with how an engine loads them, discriminators, classifiers.

A variant is a deployed way to generate, with its measured profile. A discriminator's deferral curve f(t) is the share
of images with a confidence below t (DiffServe 3.3). A classifier predicts a prompt's hardness and, where it is learned,
its class under one strategy.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from planner.catalog.components import BASE, Component, Offer
from planner.catalog.judges import Judge
from planner.catalog.option_limits import OPTIONS
from planner.catalog.server import Server
from planner.catalog.validate import check_device, is_amount, is_share, require
from schemas.errors import Unknown

HONOURABLE = tuple(name for name, each in OPTIONS.items() if each.about.honoured)  # options that a level may follow
DTYPES = ("", "float32", "float16", "bfloat16")
QUANTIZATIONS = ("", "int8", "float8")
OFFLOADS = ("", "model", "sequential")
REUSE_SUFFIX = re.compile(r"k[1-9][0-9]{0,3}")
WEIGHTS = re.compile(r".+\.safetensors")
CLASSIFIER_ENGINES: Final = ("rules", "learned")
TOLERANCE: Final = 0.9  # of the best level's quality. Source: ARGUS 3.2


class OwnAdapter(NamedTuple):
    """An adapter that is fused into a variant's weights when it is loaded."""

    file: str  # a file, or OWNER/REPOSITORY@REVISION/FILE on the hub
    weight: float = 1.0


@dataclass(frozen=True)
class Loading:
    """An engine's options for loading a variant's model.

    Empty values leave it to the engine or to the model's own files. Refuses impossible values.
    """

    device: str = ""  # "cpu", "cuda", "cuda:1", "mps"; "": cuda where there is one, else cpu
    dtype: str = ""  # "float32", "float16", "bfloat16"; "": on cuda as agents/engines/pipelines.py says, else float32
    files: str = ""  # which of a hub model's files, such as "fp16" (diffusers' `variant`); "": the plain ones
    config: str = ""  # of a model that is one file: a folder or hub id with the configuration of its kind
    weights: Mapping[str, str] = field(default_factory=dict)  # part -> file, or OWNER/REPOSITORY@REVISION/FILE
    loras: tuple[OwnAdapter, ...] = ()  # that are part of the variant, such as one that distils its steps
    scheduler_options: Mapping[str, Any] = field(default_factory=dict)  # such as timestep_spacing or shift
    tiling: bool = False  # whether images are decoded in tiles, which takes less memory
    offload: str = ""  # "model", "sequential": parts wait in the memory of the host; "": all are on the device
    attention: str = ""  # diffusers' name of an attention backend; "": the library's choice
    cache: Mapping[str, Any] = field(default_factory=dict)  # options of cache-dit: blocks are skipped in some steps
    guidance_steps: int = 0  # guided are the first so many steps; 0: all
    quantization: str = ""  # "int8", "float8": of the denoiser's weights, by torchao when they are loaded
    licence: str = ""  # of the weights, for those who deploy them
    compile: bool = False  # whether the denoiser runs as code that torch.compile makes when the model is loaded

    def __post_init__(self) -> None:
        check_device(self.device)
        require(self.dtype in DTYPES, "dtype", self.dtype, "one of " + ", ".join(DTYPES[1:]), "correct it, or omit it")
        offloads = self.offload in OFFLOADS
        require(offloads, "offload", self.offload, "one of " + ", ".join(OFFLOADS[1:]), "correct it, or omit it")
        for file in (*self.weights.values(), *(each.file for each in self.loras)):
            named = WEIGHTS.fullmatch(file) is not None
            require(named, "weights", file, "a .safetensors file", "other formats can run code: convert it")
        known = self.quantization in QUANTIZATIONS
        require(known, "quantization", self.quantization, "one of " + ", ".join(QUANTIZATIONS[1:]), "correct it")
        require(self.guidance_steps >= 0, "guidance_steps", self.guidance_steps, ">= 0", "correct it")
        changed = bool(self.cache or self.guidance_steps or self.quantization)
        require(not (changed and self.compile), "compile", True, "false beside other acceleration", "choose one")
        halves = self.device == "cpu" and self.dtype == "float16"
        require(not halves, "dtype", self.dtype, "float32 or bfloat16 on cpu", "half precision is for accelerators")


PLAIN = Loading()


@dataclass(frozen=True)
class Variant:
    """Model, scheduler, steps, guidance and size, with its measured profile. Refuses impossible values."""

    name: str
    engine: str  # by its name in `planner.catalog.engines`
    model: str  # a folder relative to infra/, or a Hugging Face id, OWNER/NAME@REVISION; "": as its engine allows
    scheduler: str  # diffusers class name; "": the folder's own
    steps: int  # denoising steps, >= 1
    guidance: float  # classifier-free guidance scale; <= 1: none
    width: int  # px
    height: int  # px
    latency_ms: dict[int, float]  # batch size -> ms for one call; batch size 1 must be there
    load_ms: float  # until a worker that has nothing resident can generate
    quality: float | None = None  # any one scale for the whole catalog, higher is better
    honours: tuple[str, ...] = ()  # options it follows instead of its own: of HONOURABLE
    loading: Loading = PLAIN  # device, precision, files, licence
    on_request: bool = False  # it is no level: requests that name it, or what it alone honours, go there, and no others
    bases: tuple[str, ...] = ()  # names of base models, the default first; (): `model` is the only one
    adapters: tuple[str, ...] = ()  # names of the adapters that it can apply
    controls: tuple[str, ...] = ()  # names of the controls that it can follow
    components: tuple[Component, ...] = ()  # of these names; a catalog's file has them in tables of their own
    call: Mapping[str, Any] = field(default_factory=dict)  # further arguments of the pipeline's call
    size_multiple: int = 1  # px that width and height are rounded down to
    server: Server | None = None  # of others, which generates; None: the engine does

    def __post_init__(self) -> None:
        where = f"variant {self.name!r}:"
        is_named = bool(self.model) or self.engine != "diffusers"
        require(is_named, f"{where} model", self.model, "named", "give a folder")
        for what in ("steps", "width", "height", "size_multiple"):
            require(getattr(self, what) >= 1, f"{where} {what}", getattr(self, what), ">= 1", "correct it")
        for what in ("guidance", "load_ms"):
            require(is_amount(getattr(self, what)), f"{where} {what}", getattr(self, what), ">= 0", "correct it")
        for option in self.honours:
            if option not in HONOURABLE:
                raise Unknown("option to honour", option, HONOURABLE)
        compiles = not self.loading.compile or self.engine == "diffusers"
        require(compiles, f"{where} loading.compile", True, f"false for engine {self.engine}", "remove it")
        for what in ("width", "height"):
            fits = getattr(self, what) % self.size_multiple == 0
            limit = f"a multiple of size_multiple = {self.size_multiple}"
            require(fits, f"{where} {what}", getattr(self, what), limit, "correct one of them")
        loading, beside = self.loading, "none beside cache, quantization or sequential offload"
        readable = not (loading.cache or loading.quantization or loading.offload == "sequential")
        require(readable or not self.adapters, f"{where} adapters", self.adapters, beside, "choose one")
        judged = self.quality is None or math.isfinite(self.quality)
        require(judged, f"{where} quality", self.quality, "finite", "correct or omit it")
        for batch, ms in self.latency_ms.items():
            require(0 < ms < math.inf, f"{where} latency_ms at {batch}", ms, "> 0", "measure again")
        check_latencies(self.latency_ms, f"{where} latency_ms")
        if self.server is not None:
            self.server.check(where, self.honours, (*self.bases, *self.adapters, *self.controls))
        has_server = self.server is not None or self.engine != "openai"
        require(has_server, f"{where} server", None, "given for engine openai", f"add [variants.{self.name}.server]")

    @cached_property
    def run_times(self) -> dict[tuple[int, int], float]:
        """(batch size, steps skipped) -> ms, remembered by `run_ms`."""
        return {}

    @cached_property
    def offer(self) -> Offer:
        """The components of it that requests may name."""
        return Offer(self.name, self.bases, self.components, self.honours)

    def base(self, name: str) -> Component:
        """Return a base by name. Raises Unknown."""
        known = self.offer.of_kind(BASE)
        if name not in known:
            raise Unknown("base", name, known)
        return known[name]


def check_latencies(latency_ms: Mapping[int, float], where: str) -> None:
    """Raise InvalidCatalog unless times by batch size are possible: of batch 1 too, and growing."""
    require(1 in latency_ms, where, latency_ms, "measured at batch size 1", "add `1 = ...`")
    for batch, ms in latency_ms.items():
        require(batch >= 1, where, batch, "for batch sizes >= 1", "remove it")
        require(is_amount(ms), f"{where} at {batch}", ms, ">= 0", "measure again")
    times = [latency_ms[batch] for batch in sorted(latency_ms)]
    require(times == sorted(times), where, latency_ms, "growing with the batch size", "measure again")


def run_ms(variant: Variant, batch: int, refine_from_step: int = 0) -> float:
    """Milliseconds of one call for `batch` images: linear between what was measured, the last slope beyond it.

    With batch size 1 alone measured, a batch takes as long as its images one by one. The first `refine_from_step` of
    the variant's steps are skipped, and their share of the time.
    """
    known = variant.run_times.get((batch, refine_from_step))
    if known is None:
        known = variant.run_times[batch, refine_from_step] = _run_ms(variant, batch, refine_from_step)
    return known


def _run_ms(variant: Variant, batch: int, refine_from_step: int) -> float:
    assert batch >= 1, f"batch must be >= 1, got {batch}"
    assert 0 <= refine_from_step < variant.steps, f"{refine_from_step} of {variant.steps} steps"
    points = [(0, 0.0), *sorted(variant.latency_ms.items())]
    right = next((i for i, (size, _) in enumerate(points) if size >= batch), len(points) - 1)
    (size0, ms0), (size1, ms1) = points[right - 1], points[right]
    whole_ms = ms1 + (batch - size1) * (ms1 - ms0) / (size1 - size0)
    return whole_ms * (variant.steps - refine_from_step) / variant.steps


def throughput_rps(variant: Variant, batch: int, refine_from_step: int = 0) -> float:
    """Images a second of one busy worker: T(b) = b / e(b). Source: DiffServe 3.3."""
    return 1000 * batch / run_ms(variant, batch, refine_from_step)


class DeferralPoint(NamedTuple):
    """One measured point of f(t)."""

    threshold: float  # t, [0, 1]
    deferred: float  # f(t), [0, 1]


Curve = tuple[DeferralPoint, ...]  # thresholds ascending


@dataclass(frozen=True, kw_only=True)
class Discriminator(Judge):
    """A judge of the images of a cascade's first level. Refuses impossible values."""

    threshold: float  # default, [0, 1]
    deferral: tuple[DeferralPoint, ...]  # thresholds ascending; f(0) = 0 and f(1) = 1 always hold
    latency_ms: dict[int, float]  # images in a batch -> ms of judging it; 1 must be there
    hardness_correlation: float = (
        0.0  # of an image's confidence with its prompt's hardness, by ranks; drawn in simulations
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"discriminator {self.name!r}:"
        correlation = self.hardness_correlation
        require(-1 <= correlation <= 1, f"{where} hardness_correlation", correlation, "in [-1, 1]", "measure again")
        require(is_share(self.threshold), f"{where} threshold", self.threshold, "in [0, 1]", "correct it")
        check_latencies(self.latency_ms, f"{where} latency_ms")
        self._check_curve(f"{where} deferral")

    @property
    def judging_ms(self) -> float:
        """Milliseconds of judging one image."""
        return self.latency_ms[1]

    def _check_curve(self, where: str) -> None:
        for point in self.deferral:
            inside = is_share(point.threshold) and is_share(point.deferred)
            require(inside, where, tuple(point), "in [0, 1]", "correct the point")
        for left, right in itertools.pairwise(self.deferral):
            rises = left.threshold < right.threshold and left.deferred <= right.deferred
            require(rises, where, (tuple(left), tuple(right)), "monotone", "sort or smooth the curve")


def deferred_share(discriminator: Discriminator, threshold: float) -> float:
    """f(t): linear between the measured points, f(0) = 0, f(1) = 1 (at 1 every image is generated again)."""
    for left, right in _segments(discriminator.deferral):
        if threshold < right.threshold:
            along = (threshold - left.threshold) / (right.threshold - left.threshold)
            return left.deferred + along * (right.deferred - left.deferred)
    return 1.0


def highest_threshold(discriminator: Discriminator, share: float) -> float:
    """The highest t with f(t) <= share (share >= 0): what a heavy level that can take this share allows."""
    for left, right in _segments(discriminator.deferral):
        if share < right.deferred:
            along = (share - left.deferred) / (right.deferred - left.deferred)
            return left.threshold + along * (right.threshold - left.threshold)
    return 1.0


def shares_below(curve: Curve, thresholds: Sequence[float]) -> tuple[float, ...]:
    """f(t) of any curve at many thresholds at once."""
    import numpy as np  # what serves reads catalogs without it

    inner = [point for point in curve if 0 < point.threshold < 1]
    known = [0.0, *(point.threshold for point in inner), 1.0], [0.0, *(point.deferred for point in inner), 1.0]
    return tuple(np.interp(thresholds, *known).tolist())


def _segments(curve: Curve) -> list[tuple[DeferralPoint, DeferralPoint]]:
    inner = [point for point in curve if 0 < point.threshold < 1]
    points = [DeferralPoint(0.0, 0.0), *inner, DeferralPoint(1.0, 1.0)]
    return list(itertools.pairwise(points))


@dataclass(frozen=True)
class Classifier:
    """A model, or rules, that predicts hardness and class from the prompt alone. Refuses impossible values."""

    name: str
    engine: str  # "rules" | "learned"
    folder: str = ""  # relative to infra/; "": the rules and the reference that ship with planner
    strategy: str = ""  # of a learned one: whose classes it predicts
    levels: tuple[str, ...] = ()  # of a learned one: its classes, the fastest first

    def __post_init__(self) -> None:
        where = f"classifier {self.name!r}:"
        if self.engine not in CLASSIFIER_ENGINES:
            raise Unknown("engine", self.engine, CLASSIFIER_ENGINES)
        if self.engine == "rules":
            given = (self.strategy, self.levels)
            require(not any(given), f"{where} strategy and levels", given, "left out for rules", "use [classes]")
            return
        require(bool(self.folder), f"{where} folder", self.folder, "named", "give a folder")
        require(bool(self.strategy), f"{where} strategy", self.strategy, "named", 'give "models" or "reuse"')
        distinct = len(set(self.levels)) == len(self.levels) >= 1
        require(distinct, f"{where} levels", self.levels, "one or more, each once", "list them, the fastest first")


def variant_of(level: str) -> str:
    """The variant that generates a level: "heavy" of "heavy~k4", which begins at step 4 with a similar past image."""
    return level.partition("~")[0]


def reuse_step(level: str) -> int:
    """K of a level's name: 4 of "heavy~k4", the most steps of its variant that a stored latent may save; else 0.

    Raises:
        Unknown: a name that is no level's.
    """
    _, mark, suffix = level.partition("~")
    if not mark:
        return 0
    if not REUSE_SUFFIX.fullmatch(suffix):
        raise Unknown("level", level, [f"{variant_of(level)}~kSTEP"])
    return int(suffix[1:])


def reuse_share(level: str, variant: Variant) -> float:
    """The share of a job's steps that a level lets a stored latent save; 0: none. Raises Unknown."""
    return reuse_step(level) / variant.steps


def expected_steps(hit_rate: float, step: int, steps: int) -> float:
    """Return the mean number of steps of a level: h (N - K) + (1 - h) N, as a miss runs in full."""
    return hit_rate * (steps - step) + (1.0 - hit_rate) * steps


def check_classifiers(classifiers: Iterable[Classifier], level: Callable[[str], Variant]) -> None:
    """Raise Unknown or InvalidCatalog unless they fit the variants, which `level` finds, and one another."""
    strategies = []
    for classifier in classifiers:
        times = [run_ms(level(variant_of(name)), 1) for name in classifier.levels]
        where = f"classifier {classifier.name!r}: levels"
        require(times == sorted(times), where, classifier.levels, "ordered by run time", "list the fastest first")
        strategies += [classifier.strategy] if classifier.strategy else []
    distinct = len(strategies) == len(set(strategies))
    require(distinct, "strategies of classifiers", strategies, "each once", "remove a classifier")


def fastest_good(quality: Mapping[str, float], levels: Sequence[str], tolerance: float = TOLERANCE) -> str:
    """A prompt's class: the first of `levels`, fastest first, whose quality is at least `tolerance` of the best's.

    Source: ARGUS 3.2. We differ: the reference is the best level for this prompt, which need not be the slowest.
    """
    enough = tolerance * max(quality[level] for level in levels) - 1e-9  # 0.9 * 1.0 is not exactly 0.9
    return next(level for level in levels if quality[level] >= enough)


def shortfall(quality: Mapping[str, float], levels: Sequence[str]) -> float:
    """Return how much quality the first of `levels`, the fastest, lacks against the best on a prompt, >= 0."""
    return max(quality[level] for level in levels) - quality[levels[0]]

"""Ways to generate behind one port; `open_engine` imports only the one that it opens. README.md: how to write one."""

import gc
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from PIL.Image import Image

from agents.components.opening import Keeping
from agents.components.store import ComponentStore
from planner.catalog.engines import ENGINES
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.options import ResolvedOptions
from schemas.errors import PochadeError
from schemas.messages import CallTimes
from streams.catalogs import check_engine
from streams.shipped import INFRA, MODELS, is_missing
from streams.store.latents import Latent, LatentSpace

log = logging.getLogger(__name__)
for _library in ("DIFFUSERS", "TRANSFORMERS"):  # they warn, when imported, of packages that no model here needs
    os.environ.setdefault(f"{_library}_VERBOSITY", "error")
logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)  # torchao registers as it has no need to any more


class EngineFailed(PochadeError):
    """A variant cannot be loaded here: what is missing and what to do."""


class WrongNumber(PochadeError):
    """An engine gave more or fewer images than tasks."""


class CannotGenerate(EngineFailed):
    """No worker can ever generate what a request asks for, as its component is damaged or does not fit.

    Raised by `generate`; the request is REJECTED at once.
    """

    def __init__(self, reason: str, param: str = "") -> None:
        """`param`: the field of the request that is at fault."""
        super().__init__(reason)
        self.param = param


class CannotRefine(PochadeError):
    """The engine can generate from noise only, and cannot begin with a draft or a latent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationTask:
    """One image to generate: the prompt, the seed, and the draft or the latent to begin with, if any."""

    request_id: str
    prompt: str
    seed: int
    over: Image | Latent | None = None  # where how.refine_from_step > 0; a draft is RGB, of the size it is generated in
    controls: tuple[Image, ...] = ()  # RGB, of that size: what each of how.components.controls follows
    image: Image | None = None  # RGB, of that size: to begin with, where how.components.strength is given
    mask: Image | None = None  # L, of that size: white where `image` is generated anew
    deadline_ms: float | None = None  # epoch: after that nothing wants it; None: no deadline


class Generated(NamedTuple):
    """The result of a call, in the order of its tasks."""

    images: list[Image]  # RGB
    latents: Sequence[Latent | None]  # None if not asked for, not given by the engine, or not finite
    times: CallTimes | None = None  # None if the engine does not report them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedPrompts:
    """The prompts of a call as the model's text encoders read them, before the call."""

    prompts: tuple[str, ...]
    negative_prompt: str
    guidance: float
    embeddings: Mapping[str, Any]  # the engine's own

    def are_of(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> bool:
        """Whether they are the prompts of a call: all of them, in its order, as rounding may differ with the batch."""
        prompts = tuple(task.prompt for task in tasks)
        wanted = (prompts, how.negative_prompt, how.guidance)
        return wanted == (self.prompts, self.negative_prompt, self.guidance)


class Previews(NamedTuple):
    """The previews that tasks of a call want between denoising steps, and the function that takes each of them."""

    wanted: Mapping[int, int]  # number of a task in its call -> previews
    show: Callable[[int, int, int, Image], object]  # is called with the task, the step from 1 on, all steps, the image


def preview_steps(wanted: int, steps: int) -> frozenset[int]:
    """Return after which of a call's steps, from 1 on, it is shown: evenly spaced, and never after the last."""
    return frozenset(step for n in range(1, wanted + 1) if 0 < (step := n * steps // (wanted + 1)) < steps)


ShouldStop = Callable[[], bool]  # asked between denoising steps; True if every request of the batch has ended


@runtime_checkable
class Engine(Protocol):
    """Generates with one loaded variant. What else an engine can do, it says by the protocols below."""

    def close(self) -> None:
        """Release models and memory; no call follows."""

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop
    ) -> Generated | None:
        """Generate one image per task; None when stopped. Equal tasks and `how` give equal images.

        With `how.refine_from_step` K > 0 each task has a draft, or each has a latent, which is noised to step K, and
        goes on from there.

        Raises:
            CannotRefine: K > 0, and what is loaded cannot begin with an image, or with a latent.
            CannotGenerate: a component of `how` is damaged or does not fit its base, or a size is impossible.
            EngineFailed: a component of `how` cannot be had now.
            UnfitLatent: K > 0, and a latent is of another autoencoder or another size; nothing is generated.
            BadImage: it has made something that is no image (`agents.engines.finite`).
            Exception: the call has failed; its jobs are tried again, each alone. `agents/worker/faults.py` reads of
                which errors the device is to blame, or too little memory.
        """


@runtime_checkable
class GivesLatents(Protocol):
    """Its `generate` takes `wants_latents`, and gives latents if that is True. The images are the same either way."""

    @property
    def latent_space(self) -> LatentSpace | None:
        """The latents that it gives, and can begin with; None where what is loaded does neither."""


@runtime_checkable
class HasComponents(Protocol):
    """Generates with the bases, adapters and controls of `how.components`."""

    @property
    def store(self) -> ComponentStore | None:
        """Where they lie; None for a variant without any."""


class MadeWith(NamedTuple):
    """What a call's images are made with, as `Made` has it; "": not known."""

    engine: str = ""
    scheduler: str = ""
    model: str = ""
    weights: Mapping[str, str] = MappingProxyType({})
    device: str = ""
    dtype: str = ""


@runtime_checkable
class SaysMadeWith(Protocol):
    """Knows its weights and its own version, by which an image can be made again and proven."""

    def made_with(self, how: ResolvedOptions) -> MadeWith:
        """Return what a call with these options was made with, without waiting."""


@runtime_checkable
class EncodesAhead(Protocol):
    """Its `generate` takes `encoded`, what `encode` returned, or None.

    Prompts of another call are encoded anew. The images are the same with and without it.
    """

    def encode(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> EncodedPrompts | None:
        """Encode the prompts of a call before it is made; None where this pipeline cannot, and nothing is lost."""


@runtime_checkable
class CountsTokens(Protocol):
    """Knows what its model reads of a text."""

    def cuts(self, prompt: str, negative_prompt: str) -> tuple[str, ...]:
        """Return what the model's text encoders do not read: "prompt: 130 tokens -> 77, the rest is cut"; (): nothing.

        The worker writes it into `overridden`, and rejects strict requests for it.
        """


@runtime_checkable
class ShowsPreviews(Protocol):
    """Its `generate` takes `previews`, and shows the wanted ones on the way; None if none is wanted."""

    @property
    def shows_previews(self) -> bool:
        """Whether what is loaded can."""


@runtime_checkable
class AllowsCalls(Protocol):
    """Its methods may be called by several threads at once, such as one that asks a server which batches by itself."""

    @property
    def calls_at_once(self) -> int:
        """Number of calls of `generate` that it allows at once; >= 1."""


@runtime_checkable
class ReportsHealth(Protocol):
    """Knows how the server that it asks is. A worker's heartbeats say it."""

    def health(self) -> str:
        """Return what is known of it, without waiting; "": nothing. Any thread may ask."""


@runtime_checkable
class CompilesCode(Protocol):
    """May run its denoiser as code that was compiled when it was loaded."""

    @property
    def is_compiled(self) -> bool:
        """Whether it does."""


@runtime_checkable
class ReportsMemory(Protocol):
    """Knows the memory of its device. `pochade profile` asks for it."""

    def peak_device_bytes(self) -> int:
        """Return the peak that it has held since it was loaded; 0: it is not on a device of its own."""


@runtime_checkable
class FreesMemory(Protocol):
    """Can free memory of its device after a call that had too little."""

    def free(self) -> None:
        """Give back what no tensor needs."""


class OpenedEngine:
    """An engine with what it can do, asked once. What it cannot is None, (), False or 0; one call at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.latent_space = engine.latent_space if isinstance(engine, GivesLatents) else None
        self.store = engine.store if isinstance(engine, HasComponents) else None
        self.calls_at_once = engine.calls_at_once if isinstance(engine, AllowsCalls) else 1
        self.is_compiled = isinstance(engine, CompilesCode) and engine.is_compiled
        self._encodes = engine if isinstance(engine, EncodesAhead) else None
        self._counts = engine if isinstance(engine, CountsTokens) else None
        self._shows = isinstance(engine, ShowsPreviews) and engine.shows_previews
        self._reports = engine if isinstance(engine, ReportsMemory) else None
        self._frees = engine if isinstance(engine, FreesMemory) else None
        self._says = engine if isinstance(engine, SaysMadeWith) else None
        self.close = engine.close
        self.health = engine.health if isinstance(engine, ReportsHealth) else str

    def encode(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> EncodedPrompts | None:
        """As of `EncodesAhead`."""
        return self._encodes.encode(tasks, how) if self._encodes else None

    def cuts(self, prompt: str, negative_prompt: str) -> tuple[str, ...]:
        """As of `CountsTokens`."""
        return self._counts.cuts(prompt, negative_prompt) if self._counts else ()

    def made_with(self, how: ResolvedOptions) -> MadeWith:
        """As of `SaysMadeWith`; what the engine does not know is empty."""
        return self._says.made_with(how) if self._says else MadeWith()

    def peak_device_bytes(self) -> int:
        """As of `ReportsMemory`."""
        return self._reports.peak_device_bytes() if self._reports else 0

    def free(self) -> None:
        """Give back the memory that nothing needs, after a call that had too little."""
        gc.collect()
        if self._frees:
            self._frees.free()

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool = False, encoded: EncodedPrompts | None = None, previews: Previews | None = None,
    ) -> Generated | None:  # fmt: skip
        """As of `Engine`; what is asked for and the engine cannot do is left out.

        Raises WrongNumber, too, where there are not as many images, and latents or None, as tasks.
        """
        more: dict[str, Any] = {}
        if wants_latents and self.latent_space is not None:
            more["wants_latents"] = True
        if encoded is not None and self._encodes:
            more["encoded"] = encoded
        if previews is not None and self._shows:
            more["previews"] = previews
        generated = self._engine.generate(tasks, how, should_stop, **more)
        if generated is not None and not len(generated.images) == len(generated.latents) == len(tasks):
            counted = f"{len(generated.images)} images and {len(generated.latents)} latents"
            raise WrongNumber(f"the engine gave {counted} for {len(tasks)} tasks: correct the engine")
        return generated


def check_models(catalog: Catalog, engine: str) -> None:
    """Check at start, before any job is taken, that the engine is known and all local model folders are there.

    Raises Unknown, EngineFailed.
    """
    check_engine(engine)
    for variant in catalog.served.values():
        if (engine or variant.engine) == "diffusers":
            model_source(variant.model)
            for component in variant.components:
                model_source(component.source)


def model_source(model: str) -> str:
    """Return where a model is: a shipped folder or file under infra/, a local one, or a hub id."""
    shipped = INFRA / model
    if model and is_missing(model):  # a variant of measured times has no model
        todo = "check the catalog" if MODELS.exists() else "check the catalog, or pip install pochade-tiny"
        raise EngineFailed(f"model folder {model!r} does not exist (looked in {shipped} and here): {todo}")
    return str(shipped) if shipped.exists() else model


def revised(named: str) -> tuple[str, str | None]:
    """A hub id and the commit, tag or branch after its `@`; a folder, and a name without one, as it is with None."""
    name, at, revision = named.partition("@")
    return (name, revision) if at and revision and not Path(named).exists() else (named, None)


def on_device(variant: Variant, device: str) -> Variant:
    """Return the variant with another device than its catalog says; "": as the catalog says.

    Raises EngineFailed where the variant cannot be loaded there.
    """
    if not device:
        return variant
    try:
        return replace(variant, loading=replace(variant.loading, device=device))
    except PochadeError as error:
        raise EngineFailed(f"variant {variant.name!r} on worker.device {device!r}: {error}") from error


def open_engine(name: str, variant: Variant, threads: int, keeping: Keeping | None = None) -> OpenedEngine:
    """Load a variant into an engine; `keeping`: where its components lie, None for the catalog's place.

    Raises:
        Unknown: there is no engine of that name.
        EngineFailed: the engine or its model cannot be loaded, or it lacks a method of `Engine`.
    """
    if name in ENGINES:
        return OpenedEngine(ENGINES[name](variant, threads, keeping))
    ENGINES.check(name)
    try:
        engine = ENGINES.load(name)(variant, threads, keeping)
    except EngineFailed:
        raise
    except Exception as error:  # whatever an engine of others and its libraries raise
        log.exception("engine %r cannot load variant %r", name, variant.name)
        raise EngineFailed(f"variant {variant.name!r}: engine {name!r} cannot load it: {error!r}") from error
    if not isinstance(engine, Engine):
        raise EngineFailed(f"engine {name!r} gave {type(engine)}, which lacks `generate` or `close`: correct it")
    return OpenedEngine(engine)

"""Ways to generate behind one port; `open_engine` knows them by name and imports only the one it opens."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from PIL.Image import Image

from agents.components.opening import Keeping
from agents.components.store import ComponentStore
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.options import ResolvedOptions
from schemas.errors import PochadeError, Unknown
from schemas.messages import CallTimes
from streams.catalogs import check_engine
from streams.shipped import INFRA, MODELS, is_missing
from streams.store.latents import Latent, LatentSpace


class EngineFailed(PochadeError):
    """A variant cannot be loaded here: what is missing and what to do."""


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


class Generated(NamedTuple):
    """What came of a call, in the order of its tasks."""

    images: list[Image]  # RGB
    latents: list[Latent | None]  # None: not asked for, not given by the engine, or not finite
    times: CallTimes | None = None  # None: the engine does not tell them


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


ShouldStop = Callable[[], bool]  # asked between denoising steps; True: nobody wants any of the batch


class Engine(Protocol):
    """Generates with one loaded variant."""

    @property
    def latent_space(self) -> LatentSpace | None:
        """The latents that it gives, and can begin with; None where it does neither."""
        ...

    @property
    def store(self) -> ComponentStore | None:
        """Where its components lie; None for a variant without any."""
        ...

    @property
    def is_compiled(self) -> bool:
        """Whether its denoiser runs code that was compiled."""
        ...

    def close(self) -> None:
        """Let go of what it holds; nothing is generated after."""
        ...

    def encode(self, tasks: Sequence[GenerationTask], how: ResolvedOptions) -> EncodedPrompts | None:
        """Encode the prompts of a call before it is made; None where the engine cannot, and nothing is lost."""
        ...

    def cuts(self, prompt: str, negative_prompt: str) -> tuple[str, ...]:
        """Return what the model's text encoders do not read of these texts.

        "prompt: 130 tokens -> 77, the rest is cut". () where they read all, and where the engine cannot know, as one
        without encoders or with a model elsewhere.
        """
        ...

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop, *,
        wants_latents: bool = False, encoded: EncodedPrompts | None = None, previews: Previews | None = None,
    ) -> Generated | None:  # fmt: skip
        """Generate one image per task; None when stopped. Equal tasks and `how` give equal images.

        `previews`: who is shown what the images look like on their way, where the engine can; None: nobody.

        `encoded`: what `encode` returned; prompts of another call are encoded anew. The images are the same with
        and without it.

        With `how.refine_from_step` K > 0 each task has a draft, or each has a latent, which is noised to step K, and
        goes on from there. The images are the same whether or not their latents are wanted.

        Raises:
            CannotRefine: K > 0, and what is loaded cannot begin with an image, or with a latent.
            EngineFailed: a component of `how` is missing, damaged, or does not fit its base.
            UnfitLatent: K > 0, and a latent is of another autoencoder or another size; nothing is generated.
        """
        ...


ENGINES = {
    "profile": "agents.engines.profile",
    "chaos": "agents.engines.chaos",
    "diffusers": "agents.engines.diffusers_engine",
}


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


def open_engine(name: str, variant: Variant, threads: int, keeping: Keeping | None = None) -> Engine:
    """Load a variant into an engine; `keeping`: where its components lie, None: where the catalog says.

    Raises:
        Unknown: there is no engine of that name.
        EngineFailed: the model cannot be loaded.
    """
    if name not in ENGINES:
        raise Unknown("engine", name, ENGINES)
    module = importlib.import_module(ENGINES[name])
    engine: Engine = module.load(variant, threads, keeping)
    return engine

"""Ways to paint behind one port; `open_engine` knows them by name and imports only the one it opens."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from PIL.Image import Image

from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.options import ResolvedOptions
from schemas.errors import PochadeError, Unknown
from streams.shipped import INFRA, is_missing


class EngineFailed(PochadeError):
    """A variant cannot be loaded here: what is missing and what to do."""


class CannotRefine(PochadeError):
    """An engine that can paint on a blank only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationTask:
    """One picture to paint."""

    request_id: str
    prompt: str
    seed: int
    over: Image | None = None  # where how.refine_from_step > 0: the draft, RGB, of the size it is painted in


ShouldStop = Callable[[], bool]  # asked between denoising steps; True: nobody wants any of the batch


class Engine(Protocol):
    """Paints with one loaded variant."""

    def generate(
        self, tasks: Sequence[GenerationTask], how: ResolvedOptions, should_stop: ShouldStop
    ) -> list[Image] | None:
        """One RGB picture a task, in order; None when stopped. The same task and `how` give the same picture.

        With `how.refine_from_step` K > 0 each task has a draft, which is noised to step K, and goes on from there.

        Raises:
            CannotPaintOver: K > 0, and what is loaded cannot begin with a picture.
        """
        ...


ENGINES = {
    "profile": "agents.engines.profile",
    "chaos": "agents.engines.chaos",
    "diffusers": "agents.engines.diffusers_engine",
}


def check_models(catalog: Catalog, engine: str) -> None:
    """Raise EngineFailed at start for a catalog whose local model folders are not there, before any job is taken."""
    for variant in catalog.variants.values():
        if (engine or variant.engine) == "diffusers":
            model_source(variant.model)


def model_source(model: str) -> str:
    """What `from_pretrained` is given: a shipped folder under infra/, a local folder, or a hub id as it is."""
    shipped = INFRA / model
    if model and is_missing(model):  # a variant of measured times has no model
        raise EngineFailed(f"model folder {model!r} does not exist (looked in {shipped} and here): check the catalog")
    return str(shipped) if shipped.is_dir() else model


def open_engine(name: str, variant: Variant, threads: int) -> Engine:
    """Load a variant.

    Raises:
        Unknown: no engine of that name.
        EngineFailed: the model cannot be loaded.
    """
    if name not in ENGINES:
        raise Unknown("engine", name, ENGINES)
    module = importlib.import_module(ENGINES[name])
    engine: Engine = module.load(variant, threads)
    return engine

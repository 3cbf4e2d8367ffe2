"""Discriminators behind one port, opened by the name that the catalog gives them."""

import pathlib
from typing import Protocol

import numpy as np
from PIL.Image import Image

from planner.catalog.entries import Discriminator as DiscriminatorEntry
from planner.catalog.entries import highest_threshold
from planner.catalog.model import Catalog
from schemas.errors import PochadeError, Unknown
from schemas.ids import draw
from schemas.messages import GenerateRequest
from streams.shipped import INFRA


class Scorer(Protocol):
    """Judges one image against its prompt."""

    def score(self, request: GenerateRequest, image: Image) -> float:
        """Confidence in [0, 1] that the image is good enough for the prompt."""
        ...


class ProfileScorer:
    """Scorer for load tests: draws a confidence by request, without the image, so that a share f(t) lies below t."""

    def __init__(self, entry: DiscriminatorEntry) -> None:
        self._entry = entry

    def score(self, request: GenerateRequest, image: Image) -> float:  # noqa: ARG002  the port's shape
        return highest_threshold(self._entry, draw(request.request_id, "confidence"))


class LearnedScorer:
    """A trained discriminator of any kind, as the config.json in its folder says."""

    def __init__(self, folder: pathlib.Path) -> None:
        from agents.models.discriminator import Discriminator  # torch: only where an image is judged
        from agents.models.threads import judge_on_one

        judge_on_one()
        self._model = Discriminator.load(folder)

    def score(self, request: GenerateRequest, image: Image) -> float:
        return float(self._model.score([np.asarray(image)], [request.prompt])[0])


def open_scorers(catalog: Catalog) -> dict[str, Scorer]:
    """Open every discriminator of the catalog, by name.

    Raises:
        PochadeError: an engine is unknown, or a folder does not exist.
    """
    return {name: open_scorer(entry) for name, entry in catalog.discriminators.items()}


def open_scorer(entry: DiscriminatorEntry) -> Scorer:
    """Open one discriminator. Raises as `open_scorers`."""
    if entry.engine == "profile":
        return ProfileScorer(entry)
    if entry.engine != "learned":
        raise Unknown("discriminator engine", entry.engine, ["learned", "profile"])
    folder = INFRA / entry.folder
    if not folder.is_dir():
        raise PochadeError(f"discriminator {entry.name!r}: folder {folder} does not exist: train it or fix the catalog")
    return LearnedScorer(folder)

"""Discriminators behind one port, opened by the name that the catalog gives them."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from agents.judges import ConfidentJudge
from planner.catalog.entries import Discriminator as DiscriminatorEntry
from planner.catalog.entries import highest_threshold
from planner.catalog.judges import PROFILE
from planner.catalog.model import Catalog
from schemas.ids import draw
from schemas.messages import GenerateRequest


class Scorer(Protocol):
    """Judges images against the prompts of their requests, in batches."""

    def score(self, requests: Sequence[GenerateRequest], images: Sequence[np.ndarray]) -> list[float]:
        """Return the confidence in [0, 1] that each image, uint8 [h, w, 3], is good enough; NaN: there is none.

        Raises JudgeAway, JudgeFailed, as `agents.judges`.
        """


class ProfileScorer:
    """Scorer for load tests: draws a confidence by request, without the image, so that a share f(t) lies below t."""

    def __init__(self, entry: DiscriminatorEntry) -> None:
        self._entry = entry

    def score(self, requests: Sequence[GenerateRequest], images: Sequence[np.ndarray]) -> list[float]:  # noqa: ARG002  the port's shape
        return [highest_threshold(self._entry, draw(request.request_id, "confidence")) for request in requests]


class JudgeScorer:
    """A judge of images that a catalog names."""

    def __init__(self, entry: DiscriminatorEntry) -> None:
        self._judge = ConfidentJudge(entry)

    def score(self, requests: Sequence[GenerateRequest], images: Sequence[np.ndarray]) -> list[float]:
        return self._judge.confidences(images, [request.prompt for request in requests])


def open_scorers(catalog: Catalog) -> dict[str, Scorer]:
    """Open every discriminator of the catalog, by name.

    Raises:
        PochadeError: an engine is unknown, or a model cannot be opened.
    """
    return {name: open_scorer(entry) for name, entry in catalog.discriminators.items()}


def open_scorer(entry: DiscriminatorEntry) -> Scorer:
    """Open one discriminator. Raises as `open_scorers`."""
    return ProfileScorer(entry) if entry.engine == PROFILE else JudgeScorer(entry)

"""Checks images before a worker stores them, so that an image that must not be shown is in no store and no message."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from agents.judges import ConfidentJudge
from agents.worker.images import Blocked, SafeImage
from agents.worker.stages import Opening, Stage
from planner.catalog.judges import LEARNED, Judge
from planner.serving.safety import Action, SafetyTerms, why_blocked
from schemas.errors import PochadeError
from streams import metrics
from streams.settings import Safety
from streams.shipped import MODELS

CELLS = 4  # pixels of a blurred image's shorter side, before it is enlarged again


class Checks(Protocol):
    """Port of a safety checker."""

    def score(self, images: Sequence[np.ndarray]) -> list[float]:
        """Return the probability in [0, 1] that each image, uint8 [h, w, 3] of any size, must not be shown."""


class SafetyStage(Stage):
    """Does what tenants want done about images that score too high."""

    def __init__(self, checker: Checks, terms: SafetyTerms) -> None:
        self._checker = checker
        self._terms = terms

    def check(self, images: Sequence[SafeImage], tenant: str) -> Sequence[SafeImage]:
        """Return the images of a request as they may be stored, with their scores. Raises Blocked: none of them may."""
        scores = self._checker.score([np.asarray(each.image.convert("RGB")) for each in images])
        checked = self._terms.decide(scores, tenant)
        for each in checked:
            metrics.SAFETY.labels(each.action or "pass").inc()
        if why := why_blocked(checked, self._terms.threshold):
            raise Blocked(why)
        return [
            SafeImage(
                blurred(safe.image) if each.action is Action.BLUR else safe.image, each.score, str(each.action or "")
            )
            for safe, each in zip(images, checked, strict=True)
        ]


def blurred(image: Image.Image) -> Image.Image:
    """Return an image of the same size of which a few colours are left, and that nothing can make sharp again."""
    scale = CELLS / min(image.size)
    cells = tuple(max(1, round(side * scale)) for side in image.size)
    few = image.convert("RGB").resize((cells[0], cells[1]), Image.Resampling.BOX)
    return few.resize(image.size, Image.Resampling.BICUBIC)


def open_stage(opening: Opening) -> Stage:
    """Return the check that the settings name. Raises PochadeError: there is no such checker."""
    settings = opening.settings.safety
    if settings.engine:
        return SafetyStage(JudgeCheck(_judge_of(settings)), terms_of(settings, settings.threshold))
    if not settings.checker:
        return Stage()
    from agents.models.safety import SafetyChecker  # torch, which an engine without it need not wait for

    checker = SafetyChecker.load(folder_of(settings.checker))
    return SafetyStage(checker, terms_of(settings, checker.threshold))


class JudgeCheck:
    """Any judge of images as a safety checker: its confidence is the probability that an image must not be shown."""

    def __init__(self, judge: Judge) -> None:
        """Open it. Raises JudgeFailed."""
        self._judge = ConfidentJudge(judge)

    def score(self, images: Sequence[np.ndarray]) -> list[float]:
        """Return the confidence for each image; NaN, which counts as unsafe, where the judge gives none."""
        return self._judge.confidences(images, [""] * len(images))


def _judge_of(settings: Safety) -> Judge:
    """Return the judge that the settings name. Raises PochadeError: they state no threshold."""
    if not settings.threshold:
        raise PochadeError(f"safety.threshold must be above 0 for engine {settings.engine!r}: got 0; state it")
    folder, model = (settings.checker, "") if settings.engine == LEARNED else ("", settings.checker)
    return Judge(name="safety", engine=settings.engine, folder=folder, model=model, options=settings.options)


def folder_of(checker: str) -> Path:
    """Return the folder of a checker: one that ships, by its name, or any other."""
    shipped = MODELS / "safety" / checker
    return shipped if shipped.is_dir() and "/" not in checker else Path(checker)


def terms_of(settings: Safety, threshold: float) -> SafetyTerms:
    """Return what the settings say is done. `threshold`: the checker's own, where they state none."""
    tenants = {tenant: Action(action) for tenant, action in settings.tenants.items()}
    return SafetyTerms(settings.threshold or threshold, Action(settings.action), tenants)

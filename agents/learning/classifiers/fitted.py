"""A classifier that was fitted, and its folder, which `agents.classifier.judges.LearnedClassifier.load` opens."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agents.classifier.judges import REFERENCE
from agents.classifier.predictors import QualityPredictor
from agents.models.saved import write
from planner.catalog.entries import shortfall
from planner.serving.hardness import build_reference
from schemas.errors import PochadeError


@dataclass(frozen=True, slots=True, kw_only=False, eq=False)
class Fitted:
    """Configuration and weights as they are written, and a predictor with them."""

    config: Mapping[str, Any]
    weights: Mapping[str, np.ndarray]
    predictor: QualityPredictor
    unseen: np.ndarray  # [m, k] quality of some of the given prompts, predicted without their own labels
    write_more: Callable[[Path], None] = lambda _: None  # writes what else belongs into the folder

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Predicted quality of each prompt, of any text, as {level: value in 0..1}."""
        return self.predictor.quality(prompts)

    def save(self, folder: Path) -> None:
        """Write config.json, model.safetensors and reference.json, the hardness quantiles of given prompts."""
        write(folder, self.config, self.weights)
        self.write_more(folder)
        levels = self.predictor.levels
        scores = [shortfall(dict(zip(levels, row, strict=True)), levels) for row in self.unseen.tolist()]
        about = "what the fastest level is predicted to lack against the best, on the prompts that it was learnt from"
        write_reference(folder, self.config["kind"], about, scores)


def write_reference(folder: Path, kind: str, about: str, scores: Sequence[float]) -> None:
    """Write reference.json: quantiles of n shortfalls, which become hardness, for the weights that are there."""
    weights = b"".join(each.read_bytes() for each in sorted(folder.rglob("*.safetensors")))
    version = f"{kind}/1-{hashlib.sha256(weights).hexdigest()[:8]}"
    (folder / REFERENCE).write_text(build_reference(version, about, scores).render())


def check(prompts: Sequence[str], quality: np.ndarray, levels: Sequence[str]) -> None:
    """Raise PochadeError unless quality is [n, k] in 0..1 of n prompts and k levels, each judged at least once."""
    if quality.shape != (len(prompts), len(levels)) or not len(prompts):
        raise PochadeError(f"quality must be [{len(prompts)}, {len(levels)}], one row or more, is {quality.shape}")
    if not ((quality >= 0) & (quality <= 1) | np.isnan(quality)).all():
        raise PochadeError("quality must lie in 0..1, or be nan where it is not known")
    without = [level for level, known in zip(levels, ~np.isnan(quality).all(0), strict=True) if not known]
    if without:
        raise PochadeError(f"no image of {', '.join(without)} was judged: judge some, or leave the level out")

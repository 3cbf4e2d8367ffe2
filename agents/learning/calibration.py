"""Turns a judge's raw scores into confidences, and says how good these are: of images at 0.8, are four in five right?

Scores and labels are those of held-out images: some fit the confidence, others choose thresholds, the rest are for the
figures.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

MIN_SCALE: Final = 0.02  # a higher score is never a lower confidence, even where the two have nothing to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The images whose confidence lies in one tenth of 0..1."""

    confidence: float  # their mean
    right: float  # the share that is
    count: int


def brier(scores: np.ndarray, right: np.ndarray) -> float:
    """Mean squared distance of confidences [n] from the truth, bool [n]; 0 is perfect, 0.25 is always saying 0.5."""
    return float(((scores - right) ** 2).mean())


def reliability(scores: np.ndarray, right: np.ndarray, bins: int = 10) -> list[Bin]:
    """Equally wide bins of confidence, the empty ones left out."""
    at = np.minimum((scores * bins).astype(int), bins - 1)
    return [
        Bin(confidence=float(scores[mask].mean()), right=float(right[mask].mean()), count=int(mask.sum()))
        for b in range(bins)
        if (mask := at == b).any()
    ]


def expected_error(scores: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """ECE (Naeini et al. 2015): mean distance between confidence and truth over the bins, weighted by their counts."""
    table = reliability(scores, right, bins)
    return sum(b.count * abs(b.confidence - b.right) for b in table) / len(scores)


def auc(scores: np.ndarray, right: np.ndarray) -> float:
    """Probability that a right one scores above a wrong one; ties count half; nan if one kind is missing.

    right is bool [n]. It is Mann-Whitney's U as a share of all pairs.
    """
    positive = int(right.sum())
    pairs = positive * (len(right) - positive)
    if not pairs:
        return float("nan")
    values, group = np.unique(scores, return_inverse=True)  # of what scipy's rankdata takes, a third of the time
    fine, wrong = (np.bincount(group, which, len(values)) for which in (right, ~right))
    return float(fine @ (wrong.cumsum() - wrong / 2) / pairs)


def calibrate(scores: np.ndarray, right: np.ndarray) -> tuple[float, float]:
    """Return scale and shift under which sigmoid(scale x + shift) of scores [n] predicts `right` [n], in 0..1.

    Source: Platt 1999, with his targets, which stay off 0 and 1 so that scores without any mistake have a finite scale.
    """
    scores, right = np.asarray(scores, float), np.asarray(right, float)
    positive, negative = right.sum(), (1 - right).sum()
    target = (1 - right) / (negative + 2) + right * (positive + 1) / (positive + 2)
    spread = float(scores.std()) or 1.0
    scale, shift = _fitted(np.stack([(scores - scores.mean()) / spread, np.ones(len(scores))], 1), target)
    scale, shift = scale / spread, shift - scale * float(scores.mean()) / spread
    if scale >= MIN_SCALE:
        return scale, shift
    return MIN_SCALE, _fitted(np.ones((len(scores), 1)), target, scores * MIN_SCALE)[0]


def _fitted(columns: np.ndarray, target: np.ndarray, offset: float | np.ndarray = 0.0) -> list[float]:
    """The weights of a logistic regression, by damped Newton steps."""
    weights, ridge = np.zeros(columns.shape[1]), 1e-9 * np.eye(columns.shape[1])

    def loss(tried: np.ndarray) -> float:
        logits = columns @ tried + offset
        return float((np.logaddexp(0, logits) - target * logits).sum())

    for _ in range(100):
        chance = confidence(columns @ weights + offset, 1.0, 0.0)
        gradient = columns.T @ (chance - target)
        step = np.linalg.solve((columns.T * (chance * (1 - chance))) @ columns + ridge, gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-9:
            step = step / 2
        weights = weights - step
        if np.abs(step).max() < 1e-8:
            break
    return [float(weight) for weight in weights]


def confidence(scores: np.ndarray, scale: float, shift: float) -> np.ndarray:
    """Return sigmoid(scale x + shift) of scores [n]."""
    return np.asarray(0.5 * (1 + np.tanh((np.asarray(scores, float) * scale + shift) / 2)))


def figures(scores: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Return how well confidences [n] rank and predict which images are right, bool [n]."""
    return {
        "n": len(right),
        "right": round(float(right.mean()), 4),
        "mean_confidence": round(float(scores.mean()), 4),
        "auc": round(auc(scores, right), 4),
        "brier": round(brier(scores, right), 4),
        "expected_error": round(expected_error(scores, right), 4),
    }


def deferral(scores: np.ndarray, points: int = 21) -> list[dict[str, float]]:
    """f(t), the share of images with a confidence below t, at evenly spread shares; thresholds rise."""
    ordered = np.sort(scores)
    thresholds = np.unique(np.quantile(scores, np.linspace(0, 1, points)[1:-1], method="lower"))
    below = np.searchsorted(ordered, thresholds) / len(ordered)
    return [{"threshold": float(t), "deferred": float(f)} for t, f in zip(thresholds, below, strict=True)]

"""Calibration of a confidence: of images at 0.8, are four in five right?"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The images whose confidence lies in one tenth of 0..1."""

    confidence: float  # their mean
    right: float  # the share that is
    count: int


def are_probabilities(scores: np.ndarray) -> bool:
    """Scores outside 0..1, such as cosines, rank but do not say how sure they are."""
    return bool(len(scores) and scores.min() >= 0 and scores.max() <= 1)


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

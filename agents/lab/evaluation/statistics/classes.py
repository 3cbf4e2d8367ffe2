"""What a classifier of prompts costs: its classes against the best choice for each prompt.

Source: ARGUS 3.2: the best choice is the fastest level whose quality is at least 0.9 of the reference. There that is
the largest model's; here it is the best level's for that prompt, because the largest is not always the best.
"""

from dataclasses import dataclass

import numpy as np

TOLERANCE = 0.9  # ARGUS 3.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """The loss of the predicted class against the best choice, as means over prompts."""

    quality_lost: float  # over prompts sent to a worse level than the best choice, 0..1
    ms_wasted: float  # over prompts sent to a slower level than the best choice
    quality: float  # of the images the predictions choose
    best_quality: float  # of those of the best choice
    cost_ms: float
    best_cost_ms: float


def best_choice(quality: np.ndarray, cost_ms: np.ndarray, tolerance: float = TOLERANCE) -> np.ndarray:
    """int [n], the row of the fastest level within `tolerance` of the best; quality [levels, n], cost_ms [levels]."""
    by_cost = np.argsort(cost_ms, kind="stable")
    good = quality[by_cost] >= tolerance * quality.max(0) - 1e-9  # 0.9 * 1.0 is not exactly 0.9
    return np.asarray(by_cost[good.argmax(0)])


def confusion(best: np.ndarray, predicted: np.ndarray, levels: int) -> np.ndarray:
    """int [levels, levels]: rows the best choice, columns the prediction."""
    return np.bincount(best * levels + predicted, minlength=levels**2).reshape(levels, levels)


def regret(quality: np.ndarray, cost_ms: np.ndarray, predicted: np.ndarray, tolerance: float = TOLERANCE) -> Regret:
    """The regret of predicted classes, int [n]: rows of quality [levels, n] and cost_ms [levels]."""
    best = best_choice(quality, cost_ms, tolerance)
    at = np.arange(len(predicted))
    chosen, wanted = quality[predicted, at], quality[best, at]
    return Regret(
        quality_lost=float(np.maximum(wanted - chosen, 0).mean()),
        ms_wasted=float(np.maximum(cost_ms[predicted] - cost_ms[best], 0).mean()),
        quality=float(chosen.mean()),
        best_quality=float(wanted.mean()),
        cost_ms=float(cost_ms[predicted].mean()),
        best_cost_ms=float(cost_ms[best].mean()),
    )

"""HADIS's rule weights, searched on prompts with known quality of light and heavy, and tested on others.

Source: HADIS 3.3 (weights by grid search). Many random weights are the baseline: a rule that does not beat them is
worth nothing. n prompts throughout; light and heavy are qualities [n] of one prompt on both levels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from agents.lab.evaluation.statistics.merits import recovery_at
from agents.learning.calibration import auc
from agents.learning.recovery import overall_recovery
from planner.catalog.entries import TOLERANCE
from planner.serving.hardness import FEATURES, PromptFeatures, normalised

DRAWS: Final = 1500
REFINED: Final = 500
ROUTERS: Final = 30


def matrix(features: Sequence[PromptFeatures]) -> np.ndarray:
    """The normalised features [n, 8] that weights are multiplied with."""
    return np.array([list(normalised(each).values()) for each in features]).reshape(-1, len(FEATURES))


def search(normal: np.ndarray, light: np.ndarray, heavy: np.ndarray, seed: int) -> dict[str, float]:
    """The weights on the simplex that recover most over all heavy shares, from normalised features [n, 8].

    Drawn evenly, each feature alone and all alike among them; then drawn ever closer around the best. Give it training
    prompts only.
    """
    rng = np.random.default_rng(seed)
    even = np.full(len(FEATURES), 1 / len(FEATURES))
    drawn = np.vstack([even, np.eye(len(FEATURES)), rng.dirichlet(np.ones(len(FEATURES)), DRAWS)])
    merits = [overall_recovery(-(normal @ weights), light, heavy) for weights in drawn]
    best, merit = drawn[int(np.argmax(merits))], max(merits)
    for closeness in np.geomspace(20, 2000, REFINED):
        weights = rng.dirichlet(best * closeness + 0.05)
        found = overall_recovery(-(normal @ weights), light, heavy)
        if found > merit:
            best, merit = weights, found
    return {name: round(float(weight), 4) for name, weight in zip(FEATURES, best, strict=True)}


def merits(hardness: np.ndarray, light: np.ndarray, heavy: np.ndarray) -> dict[str, float]:
    """AUC of "light is worse" by scores [n] that rise with hardness; recovery at half heavy, and over all shares."""
    return {
        "auc": round(auc(-hardness, light >= heavy), 4),
        "recovery_at_half": round(recovery_at(-hardness, light, heavy, 0.5), 4),
        "overall_recovery": round(overall_recovery(-hardness, light, heavy), 4),
    }


def class_cut(hardness: np.ndarray, light: np.ndarray, heavy: np.ndarray) -> float:
    """The hardness up to which light is a prompt's class: in every tenth below, it is good enough on average.

    hardness [n] in 0..1; light and heavy [n] are what "good enough" compares, ARGUS's `TOLERANCE` of heavy's mean.
    """
    tenth = np.minimum((hardness * 10).astype(int), 9)
    for at in range(10):
        rows = tenth == at
        if rows.any() and light[rows].mean() < TOLERANCE * heavy[rows].mean():
            return at / 10
    return 1.0


def report(
    normal: np.ndarray,
    weights: Mapping[str, float],
    light: np.ndarray,
    heavy: np.ndarray,
    others: Mapping[str, np.ndarray],
    seed: int,
) -> dict[str, Any]:
    """Return the figures of the searched weights on other prompts, and those of the rankers that they must beat.

    `others` are scores [n] that rise with hardness, such as the number of objects or a learned shortfall.
    """
    rng = np.random.default_rng(seed)
    random = [merits(normal @ rng.dirichlet(np.ones(len(FEATURES))), light, heavy) for _ in range(ROUTERS)]
    searched = merits(normal @ np.array([weights[name] for name in FEATURES]), light, heavy)
    return {
        "prompts": len(light),
        "light_worse": round(float((light < heavy).mean()), 4),
        "weights": dict(weights),
        "searched": searched,
        "equal_weights": merits(normal.mean(1), light, heavy),
        **{name: merits(scores, light, heavy) for name, scores in others.items()},
        "random_routers": {
            key: {
                "mean": round(float(np.mean([each[key] for each in random])), 4),
                "best": max(each[key] for each in random),
                "beaten_by_searched": sum(each[key] < searched[key] for each in random),
            }
            for key in searched
        },
        "routers": ROUTERS,
    }

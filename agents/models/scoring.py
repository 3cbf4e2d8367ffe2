"""Figures of merit for a ranking of pictures: AUC, deferral curve, and the quality recovered by escalating."""

import numpy as np


def auc(scores: np.ndarray, right: np.ndarray) -> float:
    """Probability that a right picture scores above a wrong one; ties count half; nan if one kind is missing."""
    positive, negative = scores[right], scores[~right]
    if not len(positive) or not len(negative):
        return float("nan")
    order = np.sort(negative)
    below = np.searchsorted(order, positive, "left")
    not_above = np.searchsorted(order, positive, "right")
    return float((below + not_above).mean() / 2 / len(negative))


def deferral_curve(scores: np.ndarray, points: int = 21) -> list[dict[str, float]]:
    """f(t): share of pictures with a confidence below t, for evenly spaced t in 0..1."""
    thresholds = np.linspace(0, 1, points)
    return [{"threshold": round(float(t), 3), "deferred": round(float((scores < t).mean()), 4)} for t in thresholds]


def escalated(scores: np.ndarray, light: np.ndarray, heavy: np.ndarray, share: float) -> float:
    """Mean quality if the `share` of pictures with the lowest scores is painted again by the heavy variant."""
    order = np.argsort(scores, kind="stable")
    cut = round(share * len(order))
    return float((heavy[order[:cut]].sum() + light[order[cut:]].sum()) / len(order))


def recovery(scores: np.ndarray, light: np.ndarray, heavy: np.ndarray, share: float) -> float:
    """What escalating `share` by these scores gains over escalating at random, as a part of what an oracle gains."""
    chance = float(light.mean() + share * (heavy.mean() - light.mean()))
    best = escalated(light - heavy, light, heavy, share)
    return (escalated(scores, light, heavy, share) - chance) / max(best - chance, 1e-9)


def standard_error(shares: np.ndarray) -> float:
    """Of a mean."""
    return float(shares.std(ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else float("nan")

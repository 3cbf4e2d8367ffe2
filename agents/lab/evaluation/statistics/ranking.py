"""Figures of merit of a ranking of prompts or pictures: AUC, quality against heavy share, quality recovered.

Scores say how good light is: the lowest are escalated first. In all of it `scores`, `light` and `heavy` are [n]; light
and heavy are qualities in 0..1 of one prompt on both levels. Tied scores count as escalated in random order.
"""

import numpy as np
from scipy import stats


def auc(scores: np.ndarray, right: np.ndarray) -> float:
    """Probability that a right one scores above a wrong one; ties count half; nan if one kind is missing.

    right is bool [n]. It is Mann-Whitney's U as a share of all pairs.
    """
    positive, negative = int(right.sum()), int((~right).sum())
    if not positive or not negative:
        return float("nan")
    ranks = stats.rankdata(scores)[right].sum()
    return float((ranks - positive * (positive + 1) / 2) / (positive * negative))


def roc(scores: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(wrong ones caught, right ones caught with them), each [m] in 0..1 and rising, as the threshold rises."""
    values, group = np.unique(scores, return_inverse=True)
    wrong = np.bincount(group, ~right, len(values)).cumsum()
    fine = np.bincount(group, right, len(values)).cumsum()
    return np.insert(wrong / max(wrong[-1], 1), 0, 0), np.insert(fine / max(fine[-1], 1), 0, 0)


def quality_at(scores: np.ndarray, light: np.ndarray, heavy: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Mean quality [m] if `shares` [m] of the pictures, those with the lowest scores, are painted by heavy instead.

    A group of tied scores is a straight piece of the curve: the mean over its random orders.
    """
    values, group = np.unique(scores, return_inverse=True)
    escalated = np.insert(np.bincount(group, minlength=len(values)).cumsum(), 0, 0)
    gained = np.insert(np.bincount(group, heavy - light, len(values)).cumsum(), 0, 0)
    return np.asarray(light.mean() + np.interp(np.asarray(shares) * len(scores), escalated, gained) / len(scores))


def random_quality_at(light: np.ndarray, heavy: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """[m]: what a ranking that knows nothing reaches, on average."""
    return np.asarray(light.mean() + np.asarray(shares) * (heavy.mean() - light.mean()))


def oracle_quality_at(light: np.ndarray, heavy: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """[m]: what a ranking by the true gain reaches, the most there is at each share."""
    return quality_at(light - heavy, light, heavy, shares)


def recovered(quality: np.ndarray, chance: np.ndarray, best: np.ndarray) -> np.ndarray:
    """(quality - random) / (oracle - random); nan where knowing all gains nothing."""
    room = best - chance
    return np.where(room > 1e-9, (quality - chance) / np.where(room > 1e-9, room, 1.0), np.nan)


def recovery(scores: np.ndarray, light: np.ndarray, heavy: np.ndarray, share: float) -> float:
    """What escalating `share` by these scores gains over escalating at random, as a part of what an oracle gains."""
    at = np.array([share])
    chance, best = random_quality_at(light, heavy, at), oracle_quality_at(light, heavy, at)
    return float(recovered(quality_at(scores, light, heavy, at), chance, best)[0])


def overall_recovery(scores: np.ndarray, light: np.ndarray, heavy: np.ndarray) -> float:
    """Recovery over all shares together: area above random, as a part of the oracle's; steadier than any one share."""
    shares = np.linspace(0, 1, 21)
    chance = random_quality_at(light, heavy, shares).sum()
    best = oracle_quality_at(light, heavy, shares).sum()
    return float(recovered(quality_at(scores, light, heavy, shares).sum(), chance, best))

"""Estimates from few prompts that a choice may rest on: differences with their errors, and monotone fits.

The best of several noisy estimates looks better than it is, so a planner that takes the best of many options takes
luck for quality. Two things hold against that. What is known of the order is used: images that the discriminator is
surer of gain less from a dearer level. And a difference that is not beyond its error, the number of options compared
included (Bonferroni), counts as none, so that the cheaper or simpler option is taken.
"""

import math
from collections.abc import Sequence

import numpy as np

from planner.catalog.measured import SIDES, Difference, Interval


def difference_of(values: np.ndarray) -> Difference:
    """The mean of differences [n] by prompt; of one prompt or none its error is infinite."""
    n = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf
    return Difference(float(values.mean()) if n else 0.0, error, n)


def share_interval(mean: float, prompts: int) -> Interval:
    """The 95 % interval of a mean of values in [0, 1], too wide for any but 0 and 1. Source: Wilson 1927."""
    spread, n = SIDES**2, prompts
    middle = (mean + spread / (2 * n)) / (1 + spread / n)
    half = SIDES / (1 + spread / n) * math.sqrt(max(0.0, mean * (1 - mean)) / n + spread / (4 * n**2))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def shrunk(found: Sequence[Difference]) -> list[float]:
    """The means of several groups, each drawn to 0 as far as chance alone explains how they scatter around 0.

    What is not chance is estimated by moments. Source: DerSimonian and Laird 1986, with a known mean.
    """
    errors = [each.error for each in found]
    weights = [1 / error**2 if 0 < error < math.inf else 0.0 for error in errors]
    known = sum(weight > 0 for weight in weights)
    scatter = math.fsum(weight * each.mean**2 for weight, each in zip(weights, found, strict=True))
    true = max(0.0, scatter - known) / math.fsum(weights) if known else 0.0  # variance between groups
    return [each.mean * true / (true + error**2) if weight else 0.0
            for each, error, weight in zip(found, errors, weights, strict=True)]  # fmt: skip


def rising(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The closest values [n] that never fall, by weighted least squares. Source: pool adjacent violators, Ayer 1955.

    SciPy has the same function; a planner needs nothing else of SciPy.
    """
    means: list[float] = []
    masses: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        means.append(value)
        masses.append(weight)
        counts.append(1)
        while len(means) > 1 and means[-2] >= means[-1]:
            last, mass, count = means.pop(), masses.pop(), counts.pop()
            means[-1] = (masses[-1] * means[-1] + mass * last) / (masses[-1] + mass)
            masses[-1] += mass
            counts[-1] += count
    return np.repeat(means, counts)


def rising_by(scores: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The fit [n] of values that never falls as the score rises; equal scores have equal values."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    fitted = rising(np.bincount(place, values) / counts, counts.astype(float))
    return np.asarray(fitted[place])

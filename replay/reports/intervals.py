"""Means of runs that differ by their seed, and how sure one can be of them and of their difference."""

import math
import statistics
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

CONFIDENCE = 0.95
DECIMALS = 6


@lru_cache(maxsize=1024)
def reach(runs: int, confidence: float = CONFIDENCE) -> float:
    """Return half the width of the mean's interval over `runs` >= 2, in standard deviations, by Student's t."""
    from scipy.stats import t

    return float(t.ppf((1 + confidence) / 2, runs - 1)) / math.sqrt(runs)


def interval(values: Sequence[float]) -> list[float]:
    """The 95 % interval of the mean of two values or more: [low, high]."""
    half, mean = reach(len(values)) * statistics.stdev(values), statistics.fmean(values)
    return [round(mean - half, DECIMALS), round(mean + half, DECIMALS)]


class Difference(NamedTuple):
    """Difference of two means, with its interval."""

    mean: float
    interval: list[float] | None  # 95 %, [low, high]; None: too few runs for an interval
    is_paired: bool  # seed by seed


def difference(
    before: Sequence[float], after: Sequence[float], seeds_before: Sequence[int], seeds_after: Sequence[int]
) -> Difference:
    """Return by how much the second is above the first; seed by seed where the seeds are equal, else by Welch's t.

    Seeds repeat draws of chance, so that what two policies have in common cancels out in pairs.
    """
    mean = round(statistics.fmean(after) - statistics.fmean(before), DECIMALS)
    if list(seeds_before) == list(seeds_after) and len(after) > 1:
        apart = [b - a for a, b in zip(before, after, strict=True)]
        return Difference(mean, interval(apart), is_paired=True)
    if min(len(before), len(after)) < 2:
        return Difference(mean, None, is_paired=list(seeds_before) == list(seeds_after))
    return Difference(mean, _welch(before, after), is_paired=False)


def _welch(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """Welch's interval of the difference of the means; without a width where all values of both are equal."""
    from scipy.stats import t

    mean = statistics.fmean(after) - statistics.fmean(before)
    parts = [(statistics.variance(values) / len(values), len(values) - 1) for values in (before, after)]
    squared = sum(part for part, _ in parts)
    if squared == 0:
        return [round(mean, DECIMALS)] * 2
    freedom = squared**2 / sum(part**2 / degrees for part, degrees in parts)
    half = float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(squared)
    return [round(mean - half, DECIMALS), round(mean + half, DECIMALS)]

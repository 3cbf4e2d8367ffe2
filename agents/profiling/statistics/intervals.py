"""Intervals by resampling prompts. Compared figures are computed on the same resampled prompts, so they are paired.

Percentile intervals, expanded as in Hesterberg (2014, "What Teachers Should Know about the Bootstrap"): the tails are
those of Student's t, times sqrt(m / (m - 1)). m is the number of informative values: with 100 prompts of which light
fails 14, plain percentiles contain the true mean or AUC in only 90 to 92 of 100 cases.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampling:
    """Seed and number of resamples; the same values give the same intervals."""

    seed: int
    resamples: int = 1000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its two-sided 95 % interval; nan where there is nothing to estimate it from."""

    value: float
    low: float
    high: float

    def fields(self, name: str, interval: str = "") -> dict[str, Any]:
        """`{name: value, name_ci: [low, high]}`, the second under `interval` if given."""
        return {name: self.value, interval or f"{name}_ci": [self.low, self.high]}


NOTHING = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True, slots=True)
class Resampled:
    """Several figures of one set of prompts, with what each became in every resample."""

    value: np.ndarray  # [figures]
    replicates: np.ndarray  # [figures, resamples]
    telling: int  # prompts; the fewer, the wider the intervals

    def estimate(self, figure: int) -> Estimate:
        """One figure, with its interval."""
        return _percentile(self.value[figure], self.replicates[figure], self.telling)

    def difference(self, figure: int, other: int) -> Estimate:
        """`figure` minus `other`, paired."""
        value, replicates = self.value[figure] - self.value[other], self.replicates[figure] - self.replicates[other]
        return _percentile(value, replicates, self.telling)


def _percentile(value: float, replicates: np.ndarray, telling: int) -> Estimate:
    m = max(telling, 2)
    tail = 100 * stats.norm.cdf(math.sqrt(m / (m - 1)) * stats.t.ppf((1 - CONFIDENCE) / 2, m - 1))
    low, high = np.percentile(
        replicates, [tail, 100 - tail]
    )  # one nan replicate makes both nan: undefined, and said so
    return Estimate(float(value), float(low), float(high))


def resampled(
    statistic: Callable[[np.ndarray], np.ndarray], count: int, how: Resampling, telling: int | None = None
) -> Resampled:
    """Bootstrap of `statistic(rows) -> [figures]`, where rows are int [count] out of 0..count-1, with repetitions.

    `telling`: number of prompts that inform the figures, such as those on which two levels differ; None for all.
    Raises ValueError for fewer than two prompts.
    """

    def batch(rows: np.ndarray, axis: int = -1) -> np.ndarray:  # [..., count] -> [figures, ...]
        del axis  # always the last
        return np.moveaxis(np.apply_along_axis(statistic, -1, rows), -1, 0)

    rows = np.arange(count)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # an undefined figure is nan
        drawn = stats.bootstrap(
            (rows,), batch, method="percentile", n_resamples=how.resamples, rng=np.random.default_rng(how.seed)
        )
    return Resampled(statistic(rows), drawn.bootstrap_distribution, count if telling is None else telling)


def mean(values: np.ndarray, how: Resampling) -> Estimate:
    """Mean of values [n], with a bootstrap interval; a set of equal values gives an interval of no width."""
    if len(values) < 2:
        return Estimate(float(values.mean()), math.nan, math.nan) if len(values) else NOTHING
    values = np.asarray(values, float)
    drawn = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=how.resamples, rng=np.random.default_rng(how.seed)
    )
    commonest = int(np.unique(values, return_counts=True)[1].max())
    return _percentile(float(values.mean()), drawn.bootstrap_distribution, len(values) - commonest)


def proportion(held: np.ndarray) -> Estimate:
    """Share of bool [n] that holds, with Wilson's interval, which has a width at 0 and 1 where a bootstrap has none."""
    if not len(held):
        return NOTHING
    result = stats.binomtest(int(held.sum()), len(held))
    interval = result.proportion_ci(CONFIDENCE, method="wilson")
    return Estimate(float(held.mean()), float(interval.low), float(interval.high))

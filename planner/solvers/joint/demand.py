"""The demand that a joint plan is for: its mean, what is not known of it, and a surge beyond any forecast.

Several damped trends, from sluggish to quick, follow the counts, and count by how well each foretold every next second
(Bayesian model averaging, by Poisson's likelihood; noise beyond Poisson's makes all of them less sure).
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from planner.observation.forecast import DAMPING, HORIZON_S
from planner.observation.observation import Observation
from planner.solvers.joint.value import Outlook

GAINS: Final = np.array([0.02, 0.04, 0.08, 0.15, 0.3, 0.5])  # of the newest count in the level
OF_TREND: Final = 1 / 6  # of the level's gain, of its last step in the trend: .05 of .3, as `forecast.trend` has it
WARM_UP_S: Final = 5  # whose forecasts do not count, as the levels still settle
MIN_FORECAST_RPS: Final = 0.05  # lowest rate that a level forecasts: a Poisson likelihood of nothing is no number
RECENT_S = (1, 2, 3)  # windows of the last seconds in which a surge may show
CHANCE = 1e-4  # of such a surge without one, in one look
MIN_HISTORY_S = 10  # fewest seconds before a surge that show what is usual
IDLE_RPS = 1 / 60  # that is planned for where none come: without demand every plan would be as good


class Followed(NamedTuple):
    """The results of damped trends of all GAINS; one entry a gain."""

    means: np.ndarray  # [G] requests a second expected over the horizon
    variances: np.ndarray  # [G] of the true mean over the horizon about it
    weights: np.ndarray  # [G] of belief, sum to 1


def outlook_of(seen: Observation, factor: float = 1.0) -> Outlook:
    """Mean and deviation of the demand until the next plan, times a factor.

    The mean is that of the trends by belief, or of a surge; the deviation how far they lie apart and how little each
    knows, without the noise of arrivals, which is the queues' own. Without counts the observation's forecast is taken.
    """
    if len(seen.counts) < MIN_HISTORY_S:
        return Outlook(max(IDLE_RPS, factor * seen.planning_rps))
    found = followed(seen.counts, HORIZON_S)
    mean = float(found.weights @ found.means)
    variance = float(found.weights @ (found.variances + (found.means - mean) ** 2))
    mean_rps = max(mean, surge_rps(seen.counts))
    return Outlook(max(IDLE_RPS, factor * mean_rps), factor * float(np.sqrt(variance)))


def followed(counts: Sequence[int], horizon_s: int) -> Followed:
    """Follow the counts, the oldest first, by a damped trend of each gain.

    A level of gain K, at its steady state, is known to K times the variance of a count and moves by K^2 / (1 - K) of it
    a second (Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 4.1.2).
    """
    level, slope = np.full(len(GAINS), float(np.mean(counts[:WARM_UP_S]))), np.zeros(len(GAINS))
    fit, misses = np.zeros(len(GAINS)), np.zeros(len(GAINS))
    for second, count in enumerate(counts):
        foretold = np.maximum(MIN_FORECAST_RPS, level + DAMPING * slope)
        if second >= WARM_UP_S:
            fit += count * np.log(foretold) - foretold
            misses += (count - foretold) ** 2 / foretold
        before = level
        level = GAINS * count + (1 - GAINS) * (level + DAMPING * slope)
        slope = OF_TREND * GAINS * (level - before) + (1 - OF_TREND * GAINS) * DAMPING * slope
    noise = max(1.0, float(misses.min()) / max(1, len(counts) - WARM_UP_S))  # times Poisson's
    belief = np.exp((fit - fit.max()) / noise)
    growth = float(np.mean(np.cumsum(DAMPING ** np.arange(1, horizon_s + 1))))
    means = np.maximum(0.0, level + growth * slope)
    spread = GAINS + GAINS**2 / (1 - GAINS) * horizon_s / 3
    return Followed(means, spread * noise * np.maximum(means, MIN_FORECAST_RPS), belief / belief.sum())


def surge_rps(counts: Sequence[int]) -> float:
    """Return recent arrivals a second if they are significantly above those before; else 0.

    A forecast follows a jump only gradually. A jump beyond the noise of the seconds before it (Poisson's, or the
    observed one if larger) is taken at once, less one deviation, as the largest of several windows is likely to be too
    large. `counts`: the oldest first.
    """
    return max((_surge_rps(counts[:-recent], counts[-recent:]) for recent in RECENT_S), default=0.0)


def _surge_rps(before: Sequence[int], late: Sequence[int]) -> float:
    if len(before) < MIN_HISTORY_S:
        return 0.0
    mean, variance = float(np.mean(before)), float(np.var(before))
    noise = max(1.0, variance / mean) if mean > 0 else 1.0  # times Poisson's
    usual, came = max(mean, MIN_FORECAST_RPS) * len(late), float(sum(late))
    if came <= usual or poisson_tail(came / noise, usual / noise) > CHANCE:
        return 0.0
    return max(0.0, came - math.sqrt(noise * came)) / len(late)


def poisson_tail(count: float, mean: float) -> float:
    """Chance of this many or more of a Poisson variable, for count > mean > 0, by Chernoff's bound: never too small."""
    return math.exp(count - mean - count * math.log(count / mean))

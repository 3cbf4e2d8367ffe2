"""Forecasts the requests per second until the next plan, from the number that came in each second before.

All are pure functions of counts a second, the oldest first. Over-provisioning is a policy's, never in here.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from planner.observation.observation import Observation
from schemas.errors import Unknown

EWMA_ALPHA: Final = 0.32  # weight of the newest second. Source: DiffServe's artifact, com 2.1; the paper gives none
HORIZON_S: Final = 5  # DiffServe's period of planning
QUANTILE: Final = 0.9
LEVEL_GAIN: Final = 0.3  # of the newest count in the level
TREND_GAIN: Final = 0.05  # of the level's last step in the trend
DAMPING: Final = 0.9  # of the trend, a second: no rise goes on for ever
WARM_UP_S: Final = 5  # whose forecasts do not count, as the level still settles
MEMORY_S: Final = 60  # of the misses that the noise is learned from
PRIOR_S: Final = 5  # seconds that Poisson's noise weighs against them
MEAN_S: Final = 10  # of the mean that an outlook is not below
FARTHEST: Final = 3.0  # one miss counts for at most as many roots of the rate, as a lone burst is no noise


class Forecast(NamedTuple):
    """The forecast of the next seconds, in requests per second."""

    level_rps: float  # now, without noise
    trend_rps_s: float  # by which it grows a second, for now
    mean_rps: float  # expected over the horizon
    burst_rps: float  # that the mean over the horizon stays below with the probability asked for


def ewma(counts: Sequence[float], alpha: float = EWMA_ALPHA) -> float:
    """Exponentially weighted mean of the counts, weights summing to 1; 0 of none.

    Source: DiffServe 3.3 and HADIS 3.4, "EWMA of the demand history".
    """
    assert 0 < alpha <= 1, f"alpha must be in (0, 1], got {alpha}"
    weights = (1 - alpha) ** np.arange(len(counts) - 1, -1, -1)
    return float(weights @ np.asarray(counts, float) / weights.sum()) if len(counts) else 0.0


def by_window(counts: Sequence[float], window_s: int, alpha: float = EWMA_ALPHA) -> float:
    """Exponentially weighted mean of the rates in windows of `window_s`, the newest ending now; 0 of no counts.

    Source: Proteus's code, an EWMA of the demand in each of its planning periods; ARGUS 4.2, queries per minute of the
    past, planned for each minute. What is left of a window at the beginning of the counts does not count.
    """
    whole = len(counts) // window_s
    if whole == 0:
        return float(np.mean(counts)) if len(counts) else 0.0
    windows = np.asarray(counts[len(counts) - whole * window_s :], float).reshape(whole, window_s)
    return ewma(windows.mean(axis=1).tolist(), alpha)


def trend(counts: Sequence[float], horizon_s: int = HORIZON_S, quantile: float = QUANTILE) -> Forecast:
    """Return level and damped trend, with a margin for bursts from the errors of recent forecasts.

    Errors are divided by the root of the rate, so that those at one rate apply to another; without history the error is
    Poisson's. The margin is the normal quantile of their root mean square. Zeros if there are no counts.

    Source: Holt's method with Gardner's damped trend; the margin is ours.
    """
    assert horizon_s >= 1, f"horizon_s must be >= 1, got {horizon_s}"
    assert 0 < quantile < 1, f"quantile must be in (0, 1), got {quantile}"
    if not len(counts):
        return Forecast(0.0, 0.0, 0.0, 0.0)
    states = _states(counts)
    growth = _mean_growth(horizon_s)
    means = [max(0.0, level + growth * slope) for level, slope in states]
    noise = _noise(counts, means, horizon_s)
    margin = NormalDist().inv_cdf(quantile) * noise * math.sqrt(max(1.0, means[-1]))
    return Forecast(*states[-1], means[-1], max(0.0, means[-1] + margin))


def outlook(counts: Sequence[float], ahead_s: int) -> np.ndarray:
    """Return [n] the requests per second expected over `ahead_s` after each of the counts, by the counts until then.

    As `trend` has it without a margin, but no fall is drawn on, and no less than the mean of the last MEAN_S: what
    came down in a second may be back in the next.
    """
    if not len(counts):
        return np.zeros(0)
    states, growth = np.array(_states(counts)), _mean_growth(ahead_s)
    total = np.concatenate([[0.0], np.cumsum(counts)])
    until = np.arange(1, len(counts) + 1)
    since = np.maximum(until - MEAN_S, 0)
    means = (total[until] - total[since]) / (until - since)
    return np.asarray(np.maximum(states[:, 0] + growth * np.maximum(states[:, 1], 0.0), means))


FORECASTS: Final[dict[str, Callable[[Sequence[float], int, float], float]]] = {
    "last": lambda counts, _horizon_s, _quantile: float(counts[-1]) if len(counts) else 0.0,
    "ewma": lambda counts, _horizon_s, _quantile: ewma(counts),
    "window": lambda counts, horizon_s, _quantile: by_window(counts, horizon_s),
    "trend": lambda counts, horizon_s, quantile: trend(counts, horizon_s, quantile).burst_rps,
}


def expected_rps(kind: str, counts: Sequence[float], horizon_s: int = HORIZON_S, quantile: float = QUANTILE) -> float:
    """Requests a second to plan for over the next `horizon_s`, by a forecast's name. Raises Unknown."""
    if kind not in FORECASTS:
        raise Unknown("forecast", kind, FORECASTS)
    return FORECASTS[kind](counts, horizon_s, quantile)


def horizon_of(period_ms: float) -> int:
    """Return the seconds to forecast by a planner that plans every `period_ms`: until its next plan."""
    return max(1, round(period_ms / 1000))


def with_forecast(seen: Observation, kind: str, horizon_s: int = HORIZON_S) -> Observation:
    """Return an observation with a forecast by its name. Raises Unknown.

    One that has a forecast already, or no arrivals by second to make one of, is returned as it is.
    """
    if seen.forecast_rps is not None or not seen.counts:
        return seen
    return replace(seen, forecast_rps=expected_rps(kind, seen.counts, horizon_s))


def _states(counts: Sequence[float]) -> list[tuple[float, float]]:
    """(level, trend a second) after each count."""
    level, slope = float(counts[0]), 0.0
    states = [(level, slope)]
    for count in itertools.islice(counts, 1, None):
        before = level
        level = LEVEL_GAIN * count + (1 - LEVEL_GAIN) * (level + DAMPING * slope)
        slope = TREND_GAIN * (level - before) + (1 - TREND_GAIN) * DAMPING * slope
        states.append((level, slope))
    return states


def _mean_growth(horizon_s: int) -> float:
    """Seconds' worth of trend by which the mean over the horizon is above the level."""
    reached = itertools.accumulate(DAMPING**second for second in range(1, horizon_s + 1))
    return sum(reached) / horizon_s


def _noise(counts: Sequence[float], means: Sequence[float], horizon_s: int) -> float:
    """Root mean square of (what came - what was forecast) / sqrt(forecast) over the last horizons that are past."""
    total = [0.0, *itertools.accumulate(counts)]
    past = range(max(WARM_UP_S, len(counts) - horizon_s - MEMORY_S), len(counts) - horizon_s)
    misses = [
        ((total[at + 1 + horizon_s] - total[at + 1]) / horizon_s - means[at]) / math.sqrt(max(1.0, means[at]))
        for at in past
    ]
    squares = math.fsum(min(abs(miss), FARTHEST) ** 2 for miss in misses)
    return math.sqrt((squares + PRIOR_S / horizon_s) / (len(misses) + PRIOR_S))

"""The interval of a difference between two shares of the same prompts."""

import math

import numpy as np
from scipy import optimize, stats

from agents.profiling.statistics.intervals import CONFIDENCE, NOTHING, Estimate


def paired_difference(held: np.ndarray, other: np.ndarray) -> Estimate:
    """Difference of the shares that hold of two bool [n] on the same prompts: the first less the second.

    Tango's score interval, which keeps its width where the two agree on every prompt; a bootstrap has none there, and
    would call thirty images without a loss a proof. Source: Tango 1998, "Equivalence test and confidence interval for
    the difference in proportions for the paired-sample design", Statistics in Medicine 17.
    """
    n = len(held)
    if not n:
        return NOTHING
    gained, lost = int((held & ~other).sum()), int((~held & other).sum())
    value = (gained - lost) / n
    z = float(stats.norm.ppf((1 + CONFIDENCE) / 2))

    def off(difference: float) -> float:  # standard errors of the value from it, at its most likely share of changes
        a, b = 2 * n, -gained - lost + (2 * n - gained + lost) * difference
        c = -lost * difference * (1 - difference)
        changed = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
        variance = n * (2 * changed + difference * (1 - difference))
        apart = gained - lost - n * difference
        return apart / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, apart) if apart else 0.0

    def end(limit: float) -> float:
        """Return where `off` falls to z or -z between the value and the limit, -1 or 1."""
        target = math.copysign(z, value - limit)
        most = limit + math.copysign(1e-9, -limit)
        if abs(value - limit) < 1e-9 or abs(off(most)) <= z:
            return limit
        return float(optimize.brentq(lambda at: np.clip(off(at), -1e9, 1e9) - target, most, value))

    return Estimate(value, end(-1.0), end(1.0))

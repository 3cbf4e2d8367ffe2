"""The demand that a joint plan is for: its mean, what is not known of it, and a surge beyond any forecast."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from planner.observation.forecast import HORIZON_S, QUANTILE, trend
from planner.observation.observation import Observation
from planner.solvers.joint.value import Outlook

RECENT_S = (1, 2, 3)  # the last seconds that may tell a surge
SURE = 4.0  # standard deviations above the mean before: by chance once in some ten thousand plans
FEWEST_S = 10  # seconds before, to tell from what is usual
IDLE_RPS = 1 / 60  # that is planned for where none come: without demand every plan would be as good


def outlook_of(seen: Observation, factor: float = 1.0) -> Outlook:
    """Mean and deviation of the demand until the next plan, times a factor.

    The mean is that of a damped trend over the counts, or of a surge; the deviation how far such forecasts missed of
    late, without the noise of arrivals, which is the queues' own. Without counts the observation's forecast is taken.
    """
    if len(seen.counts) < FEWEST_S:
        return Outlook(max(IDLE_RPS, factor * seen.planning_rps))
    found = trend(seen.counts, HORIZON_S)
    miss_rps = (found.burst_rps - found.mean_rps) / NormalDist().inv_cdf(QUANTILE)
    own = found.mean_rps / HORIZON_S
    mean_rps = max(found.mean_rps, surge_rps(seen.counts))
    return Outlook(max(IDLE_RPS, factor * mean_rps), factor * float(np.sqrt(max(0.0, miss_rps**2 - own))))


def surge_rps(counts: Sequence[int]) -> float:
    """Arrivals a second of late where they are more than chance explains; 0 where they are not.

    A forecast follows a jump by a share a second, and a plan made meanwhile is made again; a jump that is beyond the
    noise of the seconds before it, Poisson's or theirs if that is more, is taken as it is. `counts`: the oldest first.
    """
    return max((_surge_rps(counts[:-recent], counts[-recent:]) for recent in RECENT_S), default=0.0)


def _surge_rps(before: Sequence[int], late: Sequence[int]) -> float:
    if len(before) < FEWEST_S:
        return 0.0
    mean, variance = float(np.mean(before)), float(np.var(before))
    usual = len(late) * mean + SURE * float(np.sqrt(len(late) * max(mean, variance, 1.0)))
    return sum(late) / len(late) if sum(late) > usual else 0.0

"""The demand that a joint plan is for: the forecast, or a surge it has not caught up with; and what waits already."""

from collections.abc import Mapping, Sequence

import numpy as np

from planner.observation.observation import Observation

RECENT_S = (1, 2, 3)  # the last seconds that may tell a surge
SURE = 4.0  # standard deviations above the mean before: by chance once in some ten thousand plans
FEWEST_S = 10  # seconds before, to tell from what is usual
FULL = 1.05  # over-provisioning up to which there is room for all of the work. Source: DiffServe 3.3, lambda
IDLE_RPS = 1 / 60  # that is planned for where none come: without demand every plan would be as good
PATIENCE = 0.5  # of the SLO: jobs that wait for less of it are no backlog


def demand_of(seen: Observation, slo_s: float, settings: Mapping[str, float]) -> float:
    """Requests a second to make room for. `settings`: overprovision, and recover_s to work off what waits in.

    Over-provisioning beyond FULL is for first pictures alone: `planner.solvers.joint.standby`.
    """
    now_rps = expected_rps(seen)
    backlog = sum(queue.waiting for queue in seen.queues) - PATIENCE * slo_s * now_rps
    wanted_rps = min(settings["overprovision"], FULL) * now_rps + max(0.0, backlog) / settings["recover_s"]
    return max(IDLE_RPS, wanted_rps)


def expected_rps(seen: Observation) -> float:
    """Requests a second until the next plan."""
    return max(seen.planning_rps, surge_rps(seen.counts))


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

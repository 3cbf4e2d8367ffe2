"""Standing by: workers for more first pictures than are asked for, while quality is planned for those that are.

More requests are added to the problem, in bands of their own. They are painted once, on the level they go to first, and
nothing is painted again: in a burst escalations give way. No quality counts for them. So workers are laid out for the
burst, and routes and thresholds for the demand of now; heavy workers do not idle, and few move when the burst comes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from planner.control.replan import LATE
from planner.observation.observation import Observation
from planner.solvers.joint.demand import FULL, expected_rps
from planner.solvers.joint.problem import SHED, Problem, Solution
from planner.solvers.joint.rises import Rise

ASKED = 0.05  # of a real request: what one counts that over-provisioning asks to be ready for; beyond any quality
RISEN = 1.3  # times a jump's peak up to which a demand is that jump, noise and all


class Standby(NamedTuple):
    """Requests a second beyond those planned for that there should be workers for."""

    rps: float
    weight: float  # of one that is not taken, as of a request that is shed


def standbys(
    problem: Problem, rises: Sequence[Rise], seen: Observation, settings: Mapping[str, float]
) -> tuple[Standby, ...]:
    """What over-provisioning asks for beyond the whole work, and what has jumped and may jump again.

    Over-provisioning is of the calm: within a jump the demand is not multiplied again; and below 1 nobody stands by, as
    not even what comes is provided for. What jumps cost in the time remembered is what readiness for the next may cost
    in quality: LATE spans a request (`planner.control.replan`).
    """
    if settings["overprovision"] < 1:
        return ()
    planned_rps, now_rps, factor = problem.demand_rps, expected_rps(seen), min(settings["overprovision"], FULL)
    calm_rps = min([now_rps, *(rise.calm_rps for rise in rises if now_rps <= RISEN * rise.peak_rps)])
    asked_rps = settings["overprovision"] * calm_rps if settings["overprovision"] > FULL else 0.0
    asked_rps = max(0.0, asked_rps - planned_rps)
    more_rps = max([0.0, *(factor * rise.peak_rps - planned_rps - asked_rps for rise in rises)])
    lost_rps = sum(rise.lost for rise in rises) / settings["remember_s"] if rises else 0.0
    wanted = Standby(asked_rps, ASKED), Standby(more_rps, LATE * lost_rps / (SHED * max(more_rps, 1.0)))
    return tuple(standby for standby in wanted if standby.rps > 0)


def with_standby(problem: Problem, wanted: Sequence[Standby]) -> Problem:
    """The problem with a band more for each; what quality, moves and indifference weigh among real requests stays."""
    if not wanted or not problem.options:
        return problem
    total_rps = problem.demand_rps + sum(standby.rps for standby in wanted)
    real, more = problem.demand_rps / total_rps, len(wanted)
    return replace(
        problem,
        shares=np.array([*(real * problem.shares), *(standby.rps / total_rps for standby in wanted)]),
        shed_weights=np.array([*problem.shed_weights, *(standby.weight for standby in wanted)]),
        load=np.concatenate([problem.load, np.repeat(_firsts(problem)[:, None], more, axis=1)], axis=1),
        quality=np.column_stack([problem.quality, *[np.full(len(problem.options), problem.quality.min())] * more]),
        demand_rps=total_rps,
        hold_s=problem.hold_s / real if real > 0 else problem.hold_s,
        indifference=problem.indifference * real,
    )


def without_standby(found: Solution, problem: Problem) -> Solution:
    """What is to be done with the problem's own bands."""
    bands = len(problem.shares)
    return replace(found, given=found.given[:bands], shed=found.shed[:bands])


def _firsts(problem: Problem) -> np.ndarray:
    """[O, V] pictures of a request that nobody paints again: those of the gate's level, and hard prompts' elsewhere."""
    firsts = np.zeros((len(problem.options), len(problem.levels)))
    for o, option in enumerate(problem.options):
        v = problem.gates[option.gate].level
        firsts[o, v] = problem.shares @ problem.load[o, :, v]
        if option.straight_to >= 0:
            firsts[o, option.straight_to] += max(0.0, 1 - firsts[o, v])
    return firsts

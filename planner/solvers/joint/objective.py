"""What a program maximises: the terms of `planner.solvers.joint.problem.Score`, each unknown's own."""

from typing import NamedTuple

import numpy as np

from planner.solvers.joint.problem import BUSY, SHED, Problem


class Objective(NamedTuple):
    """What one of each adds."""

    given: np.ndarray  # [O, C] all requests of a band served by an option, less the price of the work
    shed: np.ndarray  # [C] all requests of a band that nothing serves
    came: np.ndarray  # [V] a worker more than in the plan in force


def objective(problem: Problem) -> Objective:
    """The terms."""
    staff = max(problem.workers, 1)
    seconds = np.where(np.isfinite(problem.seconds), problem.seconds, 0.0)
    busy = problem.demand_rps * problem.shares * (problem.load @ seconds) / staff
    return Objective(
        given=problem.shares * problem.merit - BUSY * busy,
        shed=-SHED * problem.shares * problem.shed_weights,
        came=-np.array(problem.switch_s) / (staff * problem.hold_s),
    )

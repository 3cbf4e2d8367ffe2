"""What a program maximises: the terms of `planner.solvers.joint.problem.Score`, each unknown's own."""

from typing import NamedTuple

import numpy as np

from planner.solvers.joint.problem import BUSY, SHED, Problem


class Thrift(NamedTuple):
    """What is good enough, and what work beyond it must be worth."""

    floor: float  # merit per request that must be reached
    price: float  # of keeping all workers busy, in spans of quality


class Objective(NamedTuple):
    """What one of each adds."""

    merit: np.ndarray  # [O, C] all requests of a band served by an option, without the price of the work
    given: np.ndarray  # [O, C] the same with it
    shed: np.ndarray  # [C] all requests of a band that nothing serves
    came: np.ndarray  # [V] a worker more than in the plan in force


def objective(problem: Problem, thrift: Thrift | None = None) -> Objective:
    """The terms. With `thrift` work has another price than BUSY."""
    staff, price = max(problem.workers, 1), thrift.price if thrift else BUSY
    seconds = np.where(np.isfinite(problem.seconds), problem.seconds, 0.0)
    merit = problem.shares * problem.merit
    busy = problem.demand_rps * problem.shares * (problem.load @ seconds) / staff
    return Objective(
        merit=merit,
        given=merit - price * busy,
        shed=-SHED * problem.shares * problem.shed_weights,
        came=-np.array(problem.switch_s) / (staff * problem.hold_s),
    )

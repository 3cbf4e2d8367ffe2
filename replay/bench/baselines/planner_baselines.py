"""The planner's models handed to HiGHS through PuLP as they are written, without a rule that makes them smaller."""

from collections.abc import Sequence
from typing import NamedTuple

import pulp

from planner.solvers.joint.program.problem import Problem as JointProblem
from planner.solvers.joint.program.problem import score
from planner.solvers.levels.level_mix import Offer as Level
from planner.solvers.milp import solve
from planner.solvers.two_stage.solve import Offer
from replay.bench.baselines.joint_program import optimum
from replay.bench.baselines.two_stage_program import solve_program


class Found(NamedTuple):
    """The result of a baseline's solve."""

    objective: float | None  # of its answer, higher is better; None: no answer
    is_stopped: bool = False  # at the limit, so that there may be a better one


def two_stage(offers: Sequence[Offer], limit_s: float) -> Found:
    """Solve the program of `two_stage_program` for each pair, and return the best score of all."""
    chosen = [solve_program(offer.problem, limit_s) for offer in offers]
    scores = [found.row.score for found in chosen if found]
    return Found(max(scores, default=None), any(found.is_stopped for found in chosen if found))


def equation_1(levels: Sequence[Level], workers: int, demand_rps: float, limit_s: float) -> Found:
    """Solve ARGUS's Eq. 1 as printed: a binary variable for each worker and level, and the load of each worker.

    x y, the only product, is one unknown `load` here, bounded by the capacity where x is 1. The objective is quality
    for each image. Source: ARGUS 4.2.
    """
    program = pulp.LpProblem("eq1", pulp.LpMaximize)
    cells = [(w, v) for w in range(workers) for v in range(len(levels))]
    serves = {(w, v): program.add_variable(f"x{w}_{v}", cat=pulp.LpBinary) for w, v in cells}
    load = {(w, v): program.add_variable(f"y{w}_{v}", 0) for w, v in cells}
    program += pulp.lpSum(levels[v].quality / demand_rps * load[w, v] for w, v in cells)
    program += pulp.lpSum(load.values()) == demand_rps
    for w in range(workers):
        program += pulp.lpSum(serves[w, v] for v in range(len(levels))) <= 1
    for w, v in cells:
        program += load[w, v] <= levels[v].rps * serves[w, v]
    solved = solve(program, limit_s)
    return Found(float(pulp.value(program.objective)) if solved.is_found else None, bool(solved.trouble))


def joint(problem: JointProblem, limit_s: float) -> Found:
    """The whole program: every option and every promise of every level."""
    found = optimum(problem, limit_s)
    return Found(score(problem, found).value, bool(found.trouble)) if found else Found(None, is_stopped=True)

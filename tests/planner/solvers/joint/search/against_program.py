"""The search held against the whole program in PuLP: by how much its plans are worse."""

from typing import NamedTuple

import numpy as np

from planner.solvers.joint.program.problem import Problem, score
from planner.solvers.joint.solve import solve
from replay.bench.baselines.joint_program import optimum
from tests.planner.solvers.joint.problems import faults, random_problem

CLOSE = 0.01  # spans of quality that the search may lose
LOST = {68: 0.1, 107: 0.062, 115: 0.018, 197: 0.057, 200: 0.029, 209: 0.015, 226: 0.012, 260: 0.057}  # of 300 instances
LIMIT_S = 30.0  # of a whole program


class Held(NamedTuple):
    """An instance solved both ways."""

    lag: float  # of the search's objective, in spans of quality; a request that is shed counts as a thousand
    faults: list[str]  # what its plan breaks
    is_proven: bool  # the program's answer is the optimum


def instance(seed: int) -> Problem:
    """Two to five levels, one to three bands of hardness, two to sixteen workers, one or two cascades; moves cost."""
    rng = np.random.default_rng(seed)
    levels, bands, workers = int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(2, 17))
    return random_problem(rng, levels, bands, workers)


def held(seed: int) -> Held:
    """Solve an instance whole, and by search."""
    problem = instance(seed)
    whole = optimum(problem, LIMIT_S)
    found = solve(problem)
    assert whole is not None, f"the program of instance {seed} found nothing in {LIMIT_S:g} s"
    return Held(score(problem, whole).value - score(problem, found).value, faults(problem, found), not whole.trouble)


def most(seed: int) -> float:
    """Return how much the search may lose on an instance, in spans of quality."""
    return LOST.get(seed, CLOSE)

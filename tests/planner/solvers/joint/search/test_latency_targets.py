import itertools

import numpy as np
import pytest

from planner.solvers.joint.program.capacity import staff_s
from planner.solvers.joint.program.problem import Problem
from planner.solvers.joint.search.latency_targets import choose_targets, targets_by_cost
from tests.planner.solvers.joint.problems import random_problem


@pytest.mark.parametrize("seed", range(12))
def test_latency_targets_cost_as_little_as_by_looking_at_all_of_them(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), levels=4)
    costs = [[staff_s(mode, 2) for mode in modes] for modes in problem.modes]
    targets = [targets_by_cost(modes, 2) for modes in problem.modes]
    images = np.random.default_rng(seed).uniform(0.1, 1.0, len(costs)).tolist()
    cascades = [g for g, gate in enumerate(problem.gates) if gate.next_level >= 0]
    for gates in ([0], [3], cascades[:1], [*cascades[-1:], *plain_beside(problem, cascades[-1])]):
        chosen = choose_targets(problem, [problem.gates[g] for g in gates], images, targets)
        best = cheapest(problem, gates, images, costs)
        if chosen is None:
            assert best is None
        else:
            assert is_quick_enough(problem, gates, chosen)
            assert sum(images[v] * costs[v][m] for v, m in chosen.items()) == pytest.approx(best)


def plain_beside(problem: Problem, cascade: int) -> list[int]:
    """The gates of all levels but the cascade's first that keep every image."""
    first = problem.gates[cascade].level
    return [g for g, gate in enumerate(problem.gates) if gate.next_level < 0 and gate.level != first]


def cheapest(problem: Problem, gates: list[int], images: list[float], costs: list[list[float]]) -> float | None:
    used = sorted({level for g in gates for level in problem.levels_of(problem.gates[g])})
    found = []
    for modes in itertools.product(*(range(len(problem.modes[v])) for v in used)):
        chosen = dict(zip(used, modes, strict=True))
        if is_quick_enough(problem, gates, chosen):
            found.append(sum(images[v] * costs[v][m] for v, m in chosen.items()))
    return min(found, default=None)


def is_quick_enough(problem: Problem, gates: list[int], chosen: dict[int, int]) -> bool:
    for g in gates:
        gate = problem.gates[g]
        seconds = problem.modes[gate.level][chosen[gate.level]].first_s + gate.extra_s
        if gate.next_level >= 0:
            seconds += problem.modes[gate.next_level][chosen[gate.next_level]].sojourn_s
        if seconds > problem.slo_s + 1e-9:
            return False
    return True

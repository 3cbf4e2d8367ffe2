import dataclasses

import numpy as np
import pytest

from planner.solvers.joint.program.problem import Problem, score
from planner.solvers.joint.search.linear import Linear, VariantCapacity
from planner.solvers.joint.solve import solve
from tests.planner.solvers.joint.problems import a_problem, random_problem


def some_asks(problem: Problem, rng: np.random.Generator) -> list[tuple[list[int], dict[int, VariantCapacity]]]:
    """Gates that come and go with the capacities that they need: free, or of so many workers."""
    asks = []
    for _ in range(12):
        gates = sorted({int(g) for g in rng.integers(0, len(problem.gates), 3)})
        needed = {v for g in gates for v in problem.levels_of(problem.gates[g])}
        lines = {v: problem.modes[v][0].lines[0] for v in needed if problem.modes[v][0].lines}
        capacities = {
            v: VariantCapacity(line) if rng.random() < 0.5 else VariantCapacity(line, 1, line.slope)
            for v, line in lines.items()
        }
        asks.append((gates, capacities))
    return asks


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_does_not_depend_on_what_was_asked_before(seed: int) -> None:
    problem = random_problem(np.random.default_rng(seed), levels=4)
    used, found = Linear(problem), 0
    for gates, capacities in some_asks(problem, np.random.default_rng(seed)):
        answer, anew = used.ask(gates, capacities), Linear(problem).ask(gates, capacities)
        assert (answer is None) == (anew is None)
        if answer and anew:
            found += 1
            assert answer.value == anew.value
            assert np.array_equal(answer.given, anew.given)
            assert answer.given.sum(axis=1) + answer.shed == pytest.approx(1.0)
            assert set(np.flatnonzero(answer.staff > 1e-9)) <= set(capacities)
    assert found


def test_the_program_s_objective_is_the_score() -> None:
    problem = a_problem(
        [[0.2, 0.2], [1.0, 0.8]], [0.5, 1.0], workers=4, demand_rps=3.0, before=(0, 3), switch_s=(60.0, 60.0)
    )
    capacities = {v: VariantCapacity(problem.modes[v][0].lines[0], 2, rate) for v, rate in ((0, 4.0), (1, 2.0))}
    answer = Linear(problem).ask([0, 1], capacities)
    assert answer is not None
    given = np.zeros((2, len(problem.options)))
    given[:, answer.options] = answer.given
    plan = dataclasses.replace(solve(problem), given=given, shed=answer.shed, counts=(2, 2), gates=(0, 1))
    assert answer.value == pytest.approx(score(problem, plan).value)
    assert given[:, 1] @ problem.shares * 3.0 == pytest.approx(2.0), "what two workers of the better level carry"

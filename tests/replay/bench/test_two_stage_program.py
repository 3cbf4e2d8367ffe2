"""The integer program agrees with the enumeration, and what it chooses is a plan."""

import math

import pytest

from planner.solvers.two_stage.problem import stage
from planner.solvers.two_stage.solve import solve
from replay.bench.baselines.two_stage_program import solve_program
from tests.planner.solvers.two_stage.instances import a_problem, random_problem


@pytest.mark.parametrize("straight", [False, True], ids=["light first", "some straight to heavy"])
def test_it_agrees_with_the_enumeration(straight: bool) -> None:
    for seed in range(1000, 1030):
        problem = random_problem(seed, straight)
        chosen, answer = solve_program(problem), solve(problem)
        assert (chosen.row.score if chosen else None) == (answer.row.score if answer else None), f"seed {seed}"
        if chosen:
            (x1, x2), (b1, b2) = chosen.workers, chosen.batches
            assert x1 + x2 <= problem.workers
            assert x1 * problem.light.throughput_rps(b1) >= problem.demand_rps * chosen.row.light - 1e-5
            assert x2 * problem.heavy.throughput_rps(b2) >= problem.demand_rps * problem.work(chosen.row) - 1e-5


def test_it_has_no_answer_where_there_is_none() -> None:
    assert solve_program(a_problem(rows=())) is None
    assert solve_program(a_problem(workers=0)) is None
    assert solve_program(a_problem(light=stage("light", {1: math.nan}))) is None

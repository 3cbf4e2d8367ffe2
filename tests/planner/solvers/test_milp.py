"""Programs in PuLP: what one call answers, and that no other program is started for it."""

import subprocess

import pulp
import pytest

from planner.solvers.levels.level_mix import maximize_quality
from planner.solvers.milp import solve
from tests.planner.solvers.levels.builders import offers


def knapsack(
    limit: float, weights: tuple[float, ...] = (3.0, 4.0, 2.0)
) -> tuple[pulp.LpProblem, list[pulp.LpVariable]]:
    """As much weight as fits the limit, each piece whole."""
    problem = pulp.LpProblem("pieces", pulp.LpMaximize)
    taken = [problem.add_variable(f"x{i}", cat=pulp.LpBinary) for i in range(len(weights))]
    problem += pulp.lpSum(w * x for w, x in zip(weights, taken, strict=True))
    problem += pulp.lpSum(w * x for w, x in zip(weights, taken, strict=True)) <= limit
    return problem, taken


def test_an_optimum_is_an_answer_without_trouble() -> None:
    problem, taken = knapsack(6.0)
    assert solve(problem) == (True, "")
    assert [round(x.value()) for x in taken] == [0, 1, 1]


def test_what_cannot_be_solved_is_said() -> None:
    problem, taken = knapsack(6.0)
    problem += pulp.lpSum(taken) >= 4
    assert solve(problem) == (False, "the solver found no plan (no solution exists)")


def test_a_solver_that_fails_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulp, "HiGHS", lambda **_: 1 / 0)
    assert solve(knapsack(6.0)[0]) == (False, "the solver failed (ZeroDivisionError: division by zero)")


def test_a_solver_that_is_stopped_says_so() -> None:
    problem, _ = knapsack(1e5, tuple(1000 + 37.1 * (i * i % 101) for i in range(400)))
    found = solve(problem, 0.0)
    assert found.trouble in ("the solver was stopped after 0 s", "the solver found no plan (no solution found)")


def test_plans_are_made_where_the_files_of_cbc_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """PuLP 3 brings CBC, 36 MB, which images leave out."""
    monkeypatch.setattr(pulp.PULP_CBC_CMD, "pulp_cbc_path", "/nowhere/cbc")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    mix = maximize_quality(offers((5, 0.9), (12.5, 0.8), (50, 0.1)), 4, 60)
    assert mix.trouble == ""
    assert mix.carried == 1

import highspy
import numpy as np
import pytest

from planner.solvers.joint import warm
from planner.solvers.joint.linear import Linear
from planner.solvers.joint.problem import Problem
from planner.solvers.joint.warm import Crew
from tests.planner.solvers.joint.problems import random_problem


def some_asks(problem: Problem, rng: np.random.Generator) -> list[tuple[list[int], dict[int, Crew]]]:
    """Gates that come and go with the crews that they need: free, or of so many workers."""
    asks = []
    for _ in range(12):
        gates = sorted({int(g) for g in rng.integers(0, len(problem.gates), 3)})
        needed = {v for g in gates for v in problem.levels_of(problem.gates[g])}
        lines = {v: problem.modes[v][0].lines[0] for v in needed if problem.modes[v][0].lines}
        crews = {v: Crew(line) if rng.random() < 0.5 else Crew(line, 1, line.slope) for v, line in lines.items()}
        asks.append((gates, crews))
    return asks


@pytest.mark.parametrize("most", [0, 25, 1000])
def test_going_on_from_the_last_answer_finds_what_beginning_anew_finds(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "MOST", most)
    for seed in range(6):
        problem = random_problem(np.random.default_rng(seed), levels=4)
        going_on, found = Linear(problem), 0
        for gates, crews in some_asks(problem, np.random.default_rng(seed)):
            answer, anew = going_on.ask(gates, crews), Linear(problem).ask(gates, crews)
            assert (answer is None) == (anew is None)
            if answer and anew:
                found += 1
                assert answer.value == pytest.approx(anew.value)
                assert answer.given.sum(axis=1) + answer.shed == pytest.approx(1.0)
                assert set(np.flatnonzero(answer.staff > 1e-9)) <= set(crews)
        assert found


def test_what_fails_from_the_last_answer_is_tried_from_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = random_problem(np.random.default_rng(1), levels=4)
    (first, crews), *others = some_asks(problem, np.random.default_rng(1))
    linear = Linear(problem)
    linear.ask(first, crews)
    gates, crews = next(ask for ask in others if Linear(problem).ask(*ask) and ask[0] != first)
    run, fails = highspy.Highs.run, iter([True])

    def stumbling(self: highspy.Highs) -> object:
        if next(fails, False):
            raise RuntimeError("lost its basis")
        return run(self)

    monkeypatch.setattr(highspy.Highs, "run", stumbling)
    assert linear.ask(gates, crews)

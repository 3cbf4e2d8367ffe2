import warnings

import highspy
import numpy as np
import pytest

from planner.solvers.joint.program.problem import Problem, score
from planner.solvers.joint.search.gates import Search
from planner.solvers.joint.search.linear import Linear
from planner.solvers.joint.search.relaxation import Start, relaxed, timings_of
from planner.solvers.joint.search.workers import planned, whole
from planner.solvers.joint.solve import searched, solve
from tests.planner.solvers.joint.problems import a_problem, faults, random_problem, without_queues


def large(seed: int) -> Problem:
    return random_problem(np.random.default_rng(seed), levels=5, bands=3, workers=24)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_searched_can_be_done_and_is_no_worse_than_where_it_began(seed: int) -> None:
    problem = large(400 + seed)
    counts = np.full(5, 6.0)
    search = Search(problem, Linear(problem))
    begun = [found for gates in [frozenset([g]) for g in range(5)] if (found := search.free(gates, counts))]
    best = search.best([Start(found.gates, found.gates) for found in begun], counts)[0]
    assert best.value >= max(found.value for found in begun)
    manned = whole(search, best)
    assert manned is not None
    assert faults(problem, planned(search, manned)) == []
    assert score(problem, planned(search, manned)).value == pytest.approx(manned.value, abs=1e-4)


def test_the_same_problem_has_the_same_plan() -> None:
    first, second = solve(large(5)), solve(large(5))
    assert (first.counts, first.gates) == (second.counts, second.gates)
    assert np.array_equal(first.given, second.given)


def test_a_solver_that_fails_on_the_way_leaves_what_was_found_before(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = large(7)
    run, left = highspy.Highs.run, iter(range(40))

    def tired(self: highspy.Highs) -> object:
        if next(left, None) is None:
            raise RuntimeError("out of order")
        return run(self)

    counts = np.full(5, 6.0)
    whole_plan = searched(problem, relaxed(problem, timings_of(problem, counts), counts))
    monkeypatch.setattr(highspy.Highs, "run", tired)
    found = solve(problem)
    assert whole_plan is not None
    assert faults(problem, found) == []
    assert found.shed.sum() == pytest.approx(0.0, abs=1e-6)


def test_what_nobody_runs_in_time_has_no_price_where_a_worker_costs_nothing() -> None:
    problem = a_problem([[0.9], [1.0]], [0.1, 99.0], modes=(without_queues({1: 0.1}, 4), ()), before=(1, 1))
    search = Search(problem, Linear(problem))
    found = search.free(frozenset([0]), np.array([4.0, 0.0]))
    assert found is not None
    assert found.answer.price == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert search.prices(found)[1] == np.inf

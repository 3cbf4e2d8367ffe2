"""The best of several pairs against trying everything on each, and the most that can be done where none fits."""

from dataclasses import replace

import pytest

from planner.catalog.parse import Pair
from planner.solvers.two_stage.explain import shed_share
from planner.solvers.two_stage.problem import Problem, stage
from planner.solvers.two_stage.solve import Offer, carried_rps, planned
from tests.builders import an_observation
from tests.planner.solvers.two_stage.instances import a_problem, best_by_trying, random_problem


def offers(*problems: Problem) -> list[Offer]:
    return [Offer(Pair(f"light-{at}", f"heavy-{at}", "look"), problem) for at, problem in enumerate(problems)]


def test_of_several_pairs_it_is_the_best_of_all_on_three_hundred_instances() -> None:
    for seed in range(300):
        first = random_problem(3 * seed, straight=True)
        rest = [random_problem(3 * seed + at, straight=True) for at in (1, 2)]
        same = [replace(p, workers=first.workers, demand_rps=first.demand_rps, slo_ms=first.slo_ms) for p in rest]
        found = planned(offers(first, *same), an_observation())
        scores = [score for p in (first, *same) if (score := best_by_trying(p)) is not None]
        assert found.is_feasible == bool(scores), f"seed {seed}"
        assert not scores or found.answer.row.score == max(scores), f"seed {seed}"


def test_of_pairs_with_the_same_score_the_less_busy_one_runs() -> None:
    slow = stage("heavy", {1: 1200.0})
    found = planned(offers(a_problem(demand_rps=1.0, heavy=slow), a_problem(demand_rps=1.0)), an_observation())
    assert found.pair.light == "light-1"


def test_where_no_pair_fits_all_workers_paint_the_lightest_level_there_is() -> None:
    slower = stage("light", {1: 150.0, 4: 500.0})
    found = planned(offers(a_problem(demand_rps=100.0, light=slower), a_problem(demand_rps=100.0)), an_observation())
    assert (found.is_feasible, found.pair.light) == (False, "light-1")
    assert (found.answer.workers, found.answer.batches[0], found.answer.row.heavy) == ((4, 0), 4, 0)
    assert carried_rps(found) == 64
    assert shed_share(found, 100.0) == pytest.approx(0.36)


def test_what_fits_sheds_nothing() -> None:
    found = planned(offers(a_problem()), an_observation())
    assert found.is_feasible
    assert shed_share(found, 5.0) == 0


def test_a_light_level_that_nobody_profiled_carries_nothing() -> None:
    found = planned(offers(a_problem(light=stage("light", {}))), an_observation())
    assert (found.is_feasible, carried_rps(found)) == (False, 0)
    assert shed_share(found, 5.0) == 1

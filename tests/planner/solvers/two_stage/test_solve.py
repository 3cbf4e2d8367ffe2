"""The two-stage optimum against trying everything, on one pair and on several, and what can be done where none fits."""

import math
import time
from dataclasses import replace

import pytest

from planner.catalog.model import Pair
from planner.solvers.two_stage.explain import shed_share
from planner.solvers.two_stage.problem import Answer, Problem, Row, stage
from planner.solvers.two_stage.solve import Offer, light_capacity_rps, planned, solve
from tests.builders import an_observation
from tests.planner.solvers.two_stage.instances import a_problem, best_by_trying, random_problem


def answered(problem: Problem, at_home: tuple[int, int] = (0, 0), move_cost: float = 0.0) -> Answer:
    answer = solve(problem, at_home, move_cost)
    assert answer, problem
    return answer


@pytest.mark.parametrize("straight", [False, True], ids=["light first", "some straight to heavy"])
def test_on_three_hundred_instances_it_equals_trying_everything_and_meets_every_constraint(straight: bool) -> None:
    infeasible = 0
    for seed in range(300):
        problem = random_problem(seed, straight)
        answer = solve(problem)
        assert (answer.row.score if answer else None) == best_by_trying(problem), f"seed {seed}"
        if answer:
            check(problem, answer)
        infeasible += answer is None
    assert 20 < infeasible < 200  # the instances are about both


def check(problem: Problem, answer: Answer) -> None:
    row, (x1, x2), (b1, b2) = answer.row, answer.workers, answer.batches
    assert x1 + x2 == problem.workers
    assert x1 * problem.light.throughput_rps(b1) >= problem.demand_rps * row.light - 1e-6
    assert x2 * problem.heavy.throughput_rps(b2) >= problem.demand_rps * problem.work(row) - 1e-6
    assert x1 or not row.light
    assert x2 or not row.heavy
    assert answer.latency_ms <= problem.slo_ms
    assert max(answer.loads) <= 1 + 1e-6


def test_the_threshold_is_the_highest_that_heavy_carries() -> None:
    answer = answered(a_problem())  # 5/s: one light worker, three heavy at 2/s each in batches of 4 generate 6/s
    assert answer.row.threshold == 1
    busier = answered(a_problem(demand_rps=9.0))
    assert busier.row.threshold == pytest.approx(0.6)  # 9 f <= 6
    assert busier.workers == (1, 3)


def test_the_slo_limits_the_batches_and_with_them_the_threshold() -> None:
    tight = answered(a_problem(slo_ms=1500.0))  # heavy in batches of 4 takes 2000 ms: of 1, three generate 3/s
    assert tight.batches[1] == 1
    assert tight.row.threshold == pytest.approx(0.6)


def test_a_queue_counts_in_the_latency() -> None:
    waiting = a_problem(heavy=stage("heavy", {1: 1000.0, 4: 2000.0}, wait_ms=800.0))
    answer = answered(waiting)
    assert answer.batches[1] == 1
    assert answer.latency_ms == 250 + 800 + 1000


def test_a_queue_reckoned_in_run_times_counts_in_the_latency() -> None:
    answer = answered(a_problem(heavy=stage("heavy", {1: 1000.0, 4: 2000.0}, wait_runs=1.0)))
    assert answer.batches[1] == 1
    assert answer.latency_ms == 250 + 2 * 1000


def test_light_is_charged_for_what_reaches_it_only() -> None:
    row = Row(1.0, straight=0.5, deferred=0.0, hardness=0.5)
    problem = a_problem(rows=(row,), demand_rps=30.0, workers=9)  # 15/s on each: one of 16/s, eight of 2/s
    answer = answered(problem)
    assert answer.workers == (1, 8)
    assert solve(replace(problem, rows=(Row(1.0, straight=0.0, deferred=0.5),))) is None  # 30/s on light: two


def test_what_goes_straight_to_heavy_is_generated_in_full_and_what_is_refined_in_part() -> None:
    """8/s: 4 straight and 2 escalated at a quarter of the work: 4.5/s of 2/s a worker, or three batches."""
    row = Row(1.0, straight=0.5, deferred=0.5, hardness=0.5)
    problem = a_problem(rows=(row,), demand_rps=8.0, workers=5, over=0.25)
    assert problem.work(row) == 0.5 + 0.25 * 0.25
    assert answered(problem).loads[1] == pytest.approx(8 * 0.5625 / (2 * answered(problem).workers[1]))
    assert answered(problem).latency_ms == 2000  # straight, not the draft's 250 with a quarter of 2000
    assert answered(replace(problem, rows=(Row(1.0, 0.0, 0.5),))).latency_ms == 250 + 500


def test_a_row_that_nobody_takes_both_levels_in_has_the_latency_of_the_slower() -> None:
    apart = a_problem(rows=(Row(1.0, straight=0.5, deferred=0.0, hardness=0.5),), slo_ms=2000.0, demand_rps=8.0)
    answer = answered(apart)
    assert answer.latency_ms == 2000


def test_among_equal_scores_the_load_decides_before_the_latency() -> None:
    answer = answered(a_problem(demand_rps=0.5))
    assert answer.batches == (4, 4)
    assert answer.workers == (1, 3)


def test_a_worker_moves_only_for_a_score_or_for_enough_load() -> None:
    problem = a_problem(demand_rps=1.0, workers=8)
    moved, kept = answered(problem), answered(problem, at_home=(3, 5), move_cost=0.05)
    assert moved.workers == (1, 7)
    assert kept.workers == (3, 5)
    needed = answered(replace(problem, demand_rps=14.0), at_home=(3, 5), move_cost=0.05)
    assert needed.workers == (1, 7)


def test_spare_workers_stay_with_the_backlog_of_a_level_that_gets_nothing_new() -> None:
    waiting = stage("heavy", {1: 1000.0}, wait_ms=10_000.0)
    answer = answered(a_problem(heavy=waiting), at_home=(1, 3))
    assert answer.row.threshold == 0
    assert answer.workers == (1, 3)
    idle = answered(a_problem(heavy=stage("heavy", {1: 1000.0}), slo_ms=500.0), at_home=(1, 3))
    assert idle.workers == (4, 0)


def test_no_demand_is_shared_out_as_some_would_be() -> None:
    answer = answered(a_problem(demand_rps=0.0, workers=9))
    assert answer.row.threshold == 1
    assert answer.workers == (1, 8)


def test_one_worker_generates_light_alone_and_none_nothing() -> None:
    alone = answered(a_problem(workers=1))
    assert (alone.workers, alone.row.threshold) == ((1, 0), 0)
    assert solve(a_problem(workers=0)) is None


def test_more_demand_than_any_row_carries_has_no_answer() -> None:
    assert solve(a_problem(demand_rps=1e9)) is None


def test_no_rows_have_no_answer() -> None:
    assert solve(a_problem(rows=())) is None


def test_times_that_are_none_are_holes_in_a_profile() -> None:
    holes = stage("light", {0: 5.0, 1: math.nan, 2: -3.0, 4: 200.0, 8: math.inf, 16: 0.0})
    assert holes.run_ms == ((4, 200.0),)
    answer = answered(a_problem(light=holes))
    assert answer.batches[0] == 4
    assert solve(a_problem(light=stage("light", {1: math.nan}))) is None


def test_a_thousand_workers_and_two_hundred_thresholds_take_no_longer_than_a_plan_may() -> None:
    rows = tuple(Row(at / 200, 0.0, at / 200, threshold=at / 200) for at in range(201))
    problem = a_problem(rows=rows, workers=1000, demand_rps=1500.0)
    times = []
    for _ in range(5):
        began = time.thread_time()
        assert solve(problem)
        times.append(time.thread_time() - began)
    assert min(times) < 0.05  # about 1 ms of one core


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


def test_where_no_pair_fits_all_workers_generate_the_lightest_level_there_is() -> None:
    slower = stage("light", {1: 150.0, 4: 500.0})
    found = planned(offers(a_problem(demand_rps=100.0, light=slower), a_problem(demand_rps=100.0)), an_observation())
    assert (found.is_feasible, found.pair.light) == (False, "light-1")
    assert (found.answer.workers, found.answer.batches[0], found.answer.row.heavy) == ((4, 0), 4, 0)
    assert light_capacity_rps(found) == 64
    assert shed_share(found, 100.0) == pytest.approx(0.36)


def test_what_fits_sheds_nothing() -> None:
    found = planned(offers(a_problem()), an_observation())
    assert found.is_feasible
    assert shed_share(found, 5.0) == 0


def test_a_light_level_that_nobody_profiled_carries_nothing() -> None:
    found = planned(offers(a_problem(light=stage("light", {}))), an_observation())
    assert (found.is_feasible, light_capacity_rps(found)) == (False, 0)
    assert shed_share(found, 5.0) == 1

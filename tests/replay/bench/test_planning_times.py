import itertools

import numpy as np
import pytest

from replay.bench.planning_times import TICK_MS, over_ms, planning_times
from replay.simulation.draws.hop_latencies import whole
from replay.simulation.setup import PlanningTime

PERIOD_MS = 5000.0
TAKES = whole([(0.0, ms) for ms in (30.0, 60.0, 90.0, 140.0)])
PLANS = [
    PlanningTime(-8000.0, 460.0),
    PlanningTime(12_400.0, 110.0),
    PlanningTime(27_700.0, 40.0),
    PlanningTime(29_000.0, 50.0),
]


def moments(plans: list[PlanningTime], seed: int = 3) -> list[float]:
    return [look.at_ms for look in planning_times(plans, TAKES, PERIOD_MS, 60_000.0, seed)]


def test_a_planner_looks_when_its_plans_say_that_it_did() -> None:
    looks = planning_times(PLANS, TAKES, PERIOD_MS, 60_000.0, 3)
    assert {PLANS[1], PLANS[2]} <= set(looks), "and took as long"
    assert {look.takes_ms for look in looks} == {110.0, 40.0, None}


def test_what_it_looked_at_before_its_period_was_over_is_for_the_simulation_to_find() -> None:
    looks = moments(PLANS)
    assert 29_000.0 not in looks
    assert min(look for look in looks if look > 27_800) > 29_000 + PERIOD_MS, "its next period began there"


def test_between_two_plans_lie_whole_periods_a_little_longer_than_asked_for() -> None:
    looks = [-8000.0, *moments(PLANS[:3])]
    gaps = [after - before for before, after in itertools.pairwise(looks)]
    assert all(PERIOD_MS <= gap <= PERIOD_MS + TICK_MS for gap in gaps), gaps


def test_a_look_that_takes_longer_is_followed_by_one_that_much_later_up_to_a_question_less() -> None:
    # 25 questions after a short solving, 24 after a long one
    assert over_ms(np.array([40.0, 100.0, 184.0]), PERIOD_MS) == pytest.approx([90, 150, 32])
    assert over_ms(np.array([6000.0]), PERIOD_MS) == pytest.approx([1000 + TICK_MS])


def test_what_is_unknown_differs_by_the_seed_and_by_nothing_else() -> None:
    runs = [moments(PLANS, seed) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_without_plans_or_times_a_planner_is_taken_for_a_usual_one() -> None:
    assert moments([]) == []
    looks = [look.at_ms for look in planning_times([PlanningTime(-1000.0)], (), PERIOD_MS, 60_000.0, 0)]
    assert len(looks) == 11
    assert all(4000 + 5000 * n <= look <= 4000 + 5202 * (n + 1) for n, look in enumerate(looks))

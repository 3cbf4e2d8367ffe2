"""How many workers a plan would need."""

import pytest

from planner.policies.argus import plan
from planner.scaling.saturation import desired_workers
from schemas.messages import Expected
from tests.builders import an_observation
from tests.planner.solvers.levels.builders import a_reuse_ladder


def expecting(utilization: float) -> Expected:
    return Expected(demand_rps=1.0, utilization=utilization, heavy_share=0.0)


@pytest.mark.parametrize(
    ("utilization", "workers"), [(0.0, 1), (0.3, 2), (1.0, 4), (1.01, 5), (3.0, 12), (float("inf"), 4)]
)
def test_workers_are_wanted_in_proportion_to_the_work(utilization: float, workers: int) -> None:
    assert desired_workers(expecting(utilization), 4) == workers


def test_a_plan_that_expects_nothing_wants_one() -> None:
    assert desired_workers(None, 4) == 1
    assert desired_workers(expecting(2.0), 0) == 2


def test_a_fleet_on_its_highest_level_wants_more_workers_and_the_reason_says_how_many() -> None:
    draft = plan(an_observation(4, demand_rps=200), a_reuse_ladder(), {}, {"overprovision": 1})
    assert set(draft.routes[-1].levels) == {"heavy~k20"}
    assert "8 workers would serve all" in draft.reason
    assert desired_workers(draft.expected, 4) == 8

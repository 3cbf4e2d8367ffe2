import numpy as np
import pytest

from planner.observation.observation import Observation
from planner.solvers.joint.demand import IDLE_RPS, outlook_of, surge_rps

CALM = (20,) * 57


def test_a_jump_is_taken_as_it_is() -> None:
    assert surge_rps((*CALM, 20, 20, 150)) == 150.0
    assert surge_rps((*CALM, 20, 150, 150)) == 150.0
    assert surge_rps((*CALM, 20, 60, 150)) == 150.0, "the second in which it began was half over"


def test_noise_is_no_surge() -> None:
    dice = np.random.default_rng(1)
    told = [surge_rps(dice.poisson(20, 60).tolist()) for _ in range(300)]
    assert sum(rps > 0 for rps in told) <= 1


def test_traffic_that_always_jumps_does_not_surge() -> None:
    assert surge_rps((5, 5, 5, 80) * 15) == 0.0


@pytest.mark.parametrize("counts", [(), (5,), (0,) * 9 + (100,)])
def test_a_few_seconds_tell_nothing(counts: tuple[int, ...]) -> None:
    assert surge_rps(counts) == 0.0


def test_the_demand_is_the_mean_of_what_came_or_the_surge() -> None:
    calm = Observation(now_ms=0, demand_rps=20.0, forecast_rps=25.0, counts=(*CALM, 20, 20, 20))
    assert outlook_of(calm).mean_rps == pytest.approx(20), "no quantile of a forecast"
    assert outlook_of(calm, 1.5).mean_rps == pytest.approx(30)
    surge = Observation(now_ms=0, demand_rps=20.0, forecast_rps=25.0, counts=(*CALM, 20, 20, 150))
    assert outlook_of(surge).mean_rps == pytest.approx(150)


def test_without_counts_the_forecast_is_the_demand() -> None:
    assert outlook_of(Observation(now_ms=0, demand_rps=20.0, forecast_rps=25.0)) == (25.0, 0.0, ())


def test_what_arrivals_vary_by_alone_leaves_the_demand_all_but_known() -> None:
    dice = np.random.default_rng(2)
    noise = Observation(now_ms=0, demand_rps=100.0, counts=tuple(dice.poisson(100, 60).tolist()))
    swings = Observation(now_ms=0, demand_rps=100.0, counts=tuple(60 + 80 * (s // 10 % 2) for s in range(60)))
    assert outlook_of(noise).deviation_rps < 8 < 15 < outlook_of(swings).deviation_rps


def test_a_pause_is_planned_for_as_for_a_request_now_and_then() -> None:
    assert outlook_of(Observation(now_ms=0, demand_rps=0.0)).mean_rps == IDLE_RPS > 0

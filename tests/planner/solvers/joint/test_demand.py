import math
from collections.abc import Iterable

import numpy as np
import pytest

from planner.observation.observation import Observation
from planner.solvers.joint.demand import IDLE_RPS, outlook_of, poisson_tail, surge_rps

CALM = (20,) * 57


def test_a_jump_is_taken_as_it_is_but_for_a_deviation() -> None:
    assert surge_rps((*CALM, 20, 20, 150)) == pytest.approx(150 - 150**0.5)
    assert surge_rps((*CALM, 20, 150, 150)) == pytest.approx(150 - 75**0.5)
    begun = surge_rps((*CALM, 20, 60, 150))
    assert begun == pytest.approx(137, abs=2), "the second in which it began was half over"


def test_a_few_requests_in_a_second_are_no_surge_where_one_comes_every_other_second() -> None:
    dice = np.random.default_rng(3)
    told = [surge_rps(dice.poisson(0.5, 60).tolist()) for _ in range(300)]
    assert sum(rps > 0 for rps in told) <= 1


@pytest.mark.parametrize(("count", "mean"), [(5, 1.0), (12, 2.0), (80, 40.0)])
def test_the_bound_on_chance_is_none_too_small(count: int, mean: float) -> None:
    tail = 1 - math.fsum(math.exp(-mean) * mean**k / math.factorial(k) for k in range(count))
    assert tail <= poisson_tail(count, mean) < 40 * tail


def test_where_few_come_the_mean_is_of_a_longer_time_and_a_change_is_still_followed() -> None:
    dice = np.random.default_rng(4)
    calm = [outlook_of(_seen(dice.poisson(1.5, 60))).mean_rps for _ in range(60)]
    assert np.std(calm) < 0.75 * (1.5 * 0.3 / 1.7) ** 0.5, "less than the noise of a level that follows in 3 s"
    risen = [outlook_of(_seen((*dice.poisson(1.5, 40), *dice.poisson(5, 20)))).mean_rps for _ in range(60)]
    assert np.mean(risen) > 4


def _seen(counts: Iterable[int]) -> Observation:
    return Observation(now_ms=0, demand_rps=1.0, counts=tuple(int(count) for count in counts))


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
    assert outlook_of(surge).mean_rps == surge_rps(surge.counts) > 130


def test_without_counts_the_forecast_is_the_demand() -> None:
    assert outlook_of(Observation(now_ms=0, demand_rps=20.0, forecast_rps=25.0)) == (25.0, 0.0, ())


def test_what_arrivals_vary_by_alone_leaves_the_demand_all_but_known() -> None:
    dice = np.random.default_rng(2)
    noise = Observation(now_ms=0, demand_rps=100.0, counts=tuple(dice.poisson(100, 60).tolist()))
    swings = Observation(now_ms=0, demand_rps=100.0, counts=tuple(60 + 80 * (s // 10 % 2) for s in range(60)))
    assert outlook_of(noise).deviation_rps < 8 < 15 < outlook_of(swings).deviation_rps


def test_a_pause_is_planned_for_as_for_a_request_now_and_then() -> None:
    assert outlook_of(Observation(now_ms=0, demand_rps=0.0)).mean_rps == IDLE_RPS > 0

import numpy as np
import pytest

from planner.observation.observation import Observation, Queue
from planner.solvers.joint.demand import FULL, IDLE_RPS, demand_of, surge_rps

CALM = (20,) * 57
SETTINGS = {"overprovision": 1.02, "recover_s": 30.0}


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


def test_the_demand_is_the_forecast_or_the_surge_and_what_waits_for_long() -> None:
    calm = Observation(now_ms=0, demand_rps=20.0, forecast_rps=25.0, counts=(*CALM, 20, 20, 20))
    assert demand_of(calm, 4.0, SETTINGS) == pytest.approx(1.02 * 25)
    surge = Observation(now_ms=0, demand_rps=20.0, forecast_rps=25.0, counts=(*CALM, 20, 20, 150))
    assert demand_of(surge, 4.0, SETTINGS) == pytest.approx(1.02 * 150)
    queued = Observation(
        now_ms=0, demand_rps=20.0, forecast_rps=25.0, queues=(Queue("a", 40, 1.0), Queue("b", 40, 1.0))
    )
    assert demand_of(queued, 4.0, SETTINGS) == pytest.approx(1.02 * 25 + (80 - 0.5 * 4 * 25) / 30)


def test_over_provisioning_beyond_the_whole_work_is_none_of_the_demand() -> None:
    calm = Observation(now_ms=0, demand_rps=20.0)
    assert demand_of(calm, 4.0, SETTINGS | {"overprovision": 0.8}) == pytest.approx(16)
    assert demand_of(calm, 4.0, SETTINGS | {"overprovision": 6.0}) == pytest.approx(FULL * 20)


def test_a_pause_is_planned_for_as_for_a_request_now_and_then() -> None:
    assert demand_of(Observation(now_ms=0, demand_rps=0.0), 4.0, SETTINGS) == IDLE_RPS > 0

"""One variant, workers that pull and come and go; its first routing differs in nothing but who gets a job."""

import dataclasses

import numpy as np
import pytest

from planner.control.proposal import terms_of
from planner.policies import named
from replay.simulation.draws.run_times import Variation
from tests.builders import a_catalog, an_observation
from tests.replay.simulation.runs import a_setup, ran

BOTH = ("octoai", "push-round-robin")


@pytest.mark.parametrize("policy", BOTH)
def test_all_requests_and_all_workers_are_on_one_level_and_the_fleet_is_to_be_scaled(policy: str) -> None:
    assert terms_of(named(policy)).scales
    best = named(policy)(an_observation(3), a_catalog(), {}, {})
    assert [route.levels for route in best.routes] == [{"heavy": 1.0}]
    assert list(best.allocation.values()) == ["heavy"] * 3
    assert best.batch == {"heavy": 1}
    cheapest = named(policy)(an_observation(3), a_catalog(), {}, {"best": 0, "batch": 4})
    assert (set(cheapest.allocation.values()), cheapest.batch) == ({"light"}, {"light": 4})


def test_they_differ_by_the_dispatch_alone() -> None:
    pull, push = (named(policy)(an_observation(3), a_catalog(), {}, {}) for policy in BOTH)
    assert (pull.dispatch, push.dispatch) == ("pull", "round-robin")
    assert dataclasses.replace(push, dispatch="pull") == pull
    assert named("push-round-robin")(an_observation(3), a_catalog(), {}, {"random": 1}).dispatch == "random"


def test_jobs_of_unlike_length_wait_less_where_idle_workers_pull_than_where_they_are_pushed() -> None:
    arrivals_ms = np.cumsum(np.random.default_rng(3).exponential(1000 / 16, 4000))
    variation = Variation(run_cv={"heavy": {1: 1.0}})

    def slow(policy: str, **parameters: float) -> list[float]:
        setup = a_setup(policy=policy, workers=4, drops=False, variation=variation, parameters=parameters)
        latencies = ran(setup, arrivals_ms).tally.latencies
        return [latencies.quantile(q) or 0.0 for q in (0.5, 0.9, 0.99)]

    pulled, pushed, by_chance = slow(BOTH[0]), slow(BOTH[1]), slow(BOTH[1], random=1)
    assert pulled[1] < 0.8 * pushed[1]
    assert pulled[2] < 0.8 * pushed[2]
    assert pulled[1] < 0.6 * by_chance[1]

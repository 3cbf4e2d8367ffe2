"""What a model remembers of one plan never tells in the value of another."""

import dataclasses
import itertools

import numpy as np
import pytest

from planner.observation.observation import Observation, Queue
from planner.observation.workers import WorkerView
from planner.policies import POLICIES
from planner.solvers.joint.improve import _changes
from planner.solvers.joint.losses import waiting_share
from planner.solvers.joint.value import Model, Outlook, Prices
from planner.solvers.queueing import erlang_c
from streams.catalogs import measured


@pytest.mark.parametrize("rule", ["diffserve", "proteus"])
def test_plans_that_differ_by_a_change_are_worth_what_a_new_model_finds(rule: str) -> None:
    catalog = measured("diffserve-sdturbo")
    homes = ("sd15", "sd-turbo", "sd15", "sd15")
    workers = tuple(WorkerView(f"w{at}", home, "ready", 0, 0.0) for at, home in enumerate(homes))
    seen = Observation(now_ms=0, demand_rps=6.0, slo_ms=5000, workers=workers, queues=(Queue("sd15", 9.0, 5.0),))

    def model() -> Model:
        return Model(catalog, seen, Outlook(6.0, 2.0), Prices(5.0), 5.0)

    first = POLICIES[rule](seen, catalog, {}, {})
    used, plans = model(), [first, *itertools.islice(_changes(model(), first), 40)]
    plans += [dataclasses.replace(plan, dispatch="random") for plan in plans[:5]]
    assert len(plans) > 10
    found = [used.evaluate(plan) for plan in [*plans, *reversed(plans)]]
    anew = [model().evaluate(plan) for plan in plans]
    assert found == [*anew, *reversed(anew)]
    assert len({value.total for value in anew}) > len(plans) / 2, "most changes tell"


def test_the_chance_to_wait_is_erlang_c_s() -> None:
    for servers in (1, 2, 7, 64):
        for load in (0.0, 0.25, 0.9, 0.99):
            assert waiting_share(servers, load) == pytest.approx(float(erlang_c([servers], np.array([load]))[0, 0]))

"""A moment like that of the last search keeps the plan in force without another, unless a known rival is better now."""

import dataclasses
import json
from typing import Any

import pytest

from planner.control.plans import publish
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.policies import joint
from planner.solvers.joint import searched
from schemas.messages import Plan
from streams import catalogs

CATALOG = catalogs.load("diffserve-sdturbo")
WORKERS = tuple(WorkerView(f"w-{at:02}", "", "ready", 0, 0.0) for at in range(16))
RPS = 25.0


def a_moment(second: int, rps: float = RPS, plan: Plan | None = None, **values: Any) -> Observation:
    """What a planner sees in a second, of workers that are where the plan has them."""
    homes = plan.allocation if plan else {}
    workers = tuple(dataclasses.replace(w, variant=homes.get(w.worker_id, "")) for w in WORKERS)
    seen = Observation(now_ms=1000 * second, demand_rps=rps, slo_ms=5000.0, workers=workers, in_force=plan)
    return dataclasses.replace(seen, **values)


@pytest.fixture(scope="module")
def before() -> Plan:
    """The plan that stands: of a search with the workers in place, as it is published."""
    first = publish(joint.plan(a_moment(0), CATALOG, {}, {}), None, "joint", 0)
    settled = joint.plan(a_moment(100, plan=first), CATALOG, {}, {})
    return publish(settled, first, "joint", 100_000)


def has_searched(seen: Observation, before: Plan, parameters: dict[str, float] | None = None) -> bool:
    """Whether a plan for this moment was searched for; else it decides what the plan before does."""
    proposal = joint.plan(seen, CATALOG, json.loads(before.memory), parameters or {})
    at_s = proposal.memory[searched.SEARCHED][0]
    if at_s == 100:
        decided = (proposal.routes, proposal.cascades, proposal.allocation, proposal.batch)
        assert decided == (before.routes, tuple(before.cascades), before.allocation, before.batch)
        assert proposal.expected is not None
        assert proposal.expected.demand_rps == pytest.approx(seen.demand_rps)
    return bool(at_s != 100)


def test_a_moment_like_that_of_the_search_needs_none(before: Plan) -> None:
    assert json.loads(before.memory)[searched.SEARCHED][6], "it has rivals"
    assert not has_searched(a_moment(105, plan=before), before)
    assert not has_searched(a_moment(159, RPS * 1.005, before), before)


@pytest.mark.parametrize(
    ("second", "rps", "values", "parameters"),
    [
        (160, RPS, {}, {}),
        (99, RPS, {}, {}),
        (105, RPS * 1.16, {}, {}),
        (105, RPS * 0.94, {}, {}),
        (105, RPS, {"workers": WORKERS}, {}),
        (105, RPS, {}, {"late": 6.0}),
        (105, RPS, {"unserved": {"sd15": 200.0}}, {}),
    ],
    ids=["a minute later", "clock set back", "more", "fewer", "other places", "other prices", "a queue"],
)
def test_another_moment_is_searched_for(
    before: Plan, second: int, rps: float, values: dict[str, Any], parameters: dict[str, float]
) -> None:
    assert has_searched(a_moment(second, rps, before, **values), before, parameters)


def test_a_rival_that_has_overtaken_the_plan_in_force_calls_for_a_search(
    before: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searched, "OVERTAKEN", -10.0)
    assert has_searched(a_moment(105, plan=before), before)


def test_a_plan_that_lost_its_value_calls_for_a_search(before: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "FALLEN", -10.0)
    assert has_searched(a_moment(105, plan=before), before)


def test_what_another_release_noted_is_no_search() -> None:
    for noted in ({}, {searched.SEARCHED: [1, 2]}, {searched.SEARCHED: None}):
        assert searched.recalled(noted, [{}, []]) is None

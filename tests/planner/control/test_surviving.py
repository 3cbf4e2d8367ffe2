"""What is obeyed when a policy has made no plan."""

import pytest

from planner.control.propose import Rules
from planner.control.surviving import survived
from planner.observation.observation import Observation
from schemas.errors import Unknown
from schemas.messages import Plan, Route
from tests.builders import NOW_MS, a_catalog, a_plan, a_worker


def after(before: Plan, *workers: str, demand_rps: float = 1.0, sheds: bool = False) -> Plan | None:
    fleet = tuple(a_worker(worker, before.allocation[worker]) for worker in workers)
    seen = Observation(now_ms=NOW_MS, demand_rps=demand_rps, workers=fleet)
    return survived(before, "the solver broke", seen, a_catalog(), Rules(sheds=sheds))


def test_where_all_are_there_the_plan_stays_as_it_is() -> None:
    assert after(a_plan(), "w-1", "w-2") is None


def test_where_some_are_gone_the_plan_goes_on_without_them_and_says_why() -> None:
    plan = after(a_plan(version=7), "w-1")
    assert plan is not None
    assert (plan.version, plan.policy, plan.allocation) == (8, a_plan().policy, {"w-1": "light"})
    assert plan.reason == "w-2 gone, the rest of plan 7 stays: the solver broke"


def test_what_the_rest_cannot_paint_is_shed_where_plans_shed() -> None:
    kept, shedding = (after(a_plan(), "w-1", demand_rps=10_000.0, sheds=sheds) for sheds in (False, True))
    assert kept is not None
    assert shedding is not None
    assert kept.admission is None
    assert shedding.admission is not None


def test_a_plan_of_a_catalog_that_is_no_more_is_refused() -> None:
    with pytest.raises(Unknown, match="old"):
        after(a_plan(routes=(Route(levels={"old": 1.0}),)), "w-1")

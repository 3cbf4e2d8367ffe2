"""A plan's decision on other workers than it was made for, and what is obeyed when a policy has made none."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.control.plans import publish
from planner.control.propose import Rules
from planner.control.renewal.carry_over import carry_over, fallback_plan, missing_workers
from planner.control.validity import check
from planner.observation.needs import Need
from planner.observation.observation import Observation
from schemas.errors import Unknown
from schemas.messages import Plan, Route
from tests.builders import NOW_MS, a_cascade, a_catalog, a_plan, a_worker


def fleet(*homes: str) -> tuple:  # type: ignore[type-arg]
    return tuple(a_worker(f"w-{n}", home, allocated=home) for n, home in enumerate(homes, 1))


def test_the_workers_that_a_plan_counts_on_and_are_not_there_are_reported() -> None:
    assert missing_workers(a_plan(), fleet("light")) == ["w-2"]
    assert missing_workers(a_plan(), fleet("light", "heavy", "heavy")) == []


def test_on_the_same_workers_nothing_changes() -> None:
    plan = a_plan(memory='{"n": 1}')
    proposal = carry_over(plan, fleet("light", "heavy"), a_catalog(), "again")
    assert (proposal.routes, proposal.cascades, proposal.allocation) == (plan.routes, plan.cascades, plan.allocation)
    assert (proposal.batch, proposal.dispatch, proposal.memory, proposal.reason) == (
        plan.batch,
        plan.dispatch,
        {"n": 1},
        "again",
    )


def test_a_variant_whose_only_worker_is_gone_gets_another_where_there_is_one_to_spare() -> None:
    plan = a_plan(allocation={"w-1": "light", "w-2": "light", "w-3": "light", "w-9": "heavy"})
    proposal = carry_over(plan, fleet("light", "light", "light"), a_catalog(), "")
    assert sorted(proposal.allocation.values()) == ["heavy", "light", "light"]
    assert proposal.cascades == plan.cascades


def test_what_nobody_is_left_for_goes_to_a_level_that_is_served_and_its_cascades_end() -> None:
    plan = a_plan(routes=(Route(levels={"light": 0.4, "heavy": 0.6}),), allocation={"w-1": "light", "w-9": "heavy"})
    proposal = carry_over(plan, fleet("light"), a_catalog(), "")
    assert proposal.routes == (Route(levels={"light": 1.0}),)
    assert (proposal.cascades, proposal.allocation) == ((), {"w-1": "light"})
    dearer = carry_over(plan, fleet("heavy"), a_catalog(), "")
    assert [route.levels.keys() for route in dearer.routes] == [set(dearer.allocation.values())]


def test_without_any_worker_only_the_allocation_changes() -> None:
    proposal = carry_over(a_plan(), (), a_catalog(), "")
    assert (proposal.routes, proposal.cascades, proposal.allocation) == (a_plan().routes, a_plan().cascades, {})


def test_a_plan_made_without_workers_spreads_those_that_come_over_the_levels_it_uses() -> None:
    proposal = carry_over(a_plan(allocation={}), fleet("", "", ""), a_catalog(), "")
    assert set(proposal.allocation.values()) == {"light", "heavy"}


def test_a_level_that_the_catalog_does_not_hold_any_more_is_reported() -> None:
    plan = a_plan(routes=(Route(levels={"old": 1.0}),), allocation={"w-1": "light"})
    with pytest.raises(Unknown, match="old"):
        carry_over(plan, fleet("light"), a_catalog(), "")


@given(
    st.lists(st.sampled_from(["light", "heavy", ""]), max_size=6),
    st.lists(st.sampled_from(["light", "heavy"]), max_size=6),
    st.floats(0, 1),
)
def test_whoever_is_there_every_worker_has_a_place_and_every_route_is_whole(
    homes: list[str], counted_on: list[str], share: float
) -> None:
    plan = a_plan(
        routes=(Route(levels={"light": share, "heavy": 1 - share}),),
        allocation={f"w-{n}": variant for n, variant in enumerate(counted_on, 4)}, cascades=(a_cascade(),),
    )  # fmt: skip
    workers = fleet(*homes)
    proposal = carry_over(plan, workers, a_catalog(), "")
    check(publish(proposal, plan, "p", NOW_MS), a_catalog())
    assert proposal.allocation.keys() == {worker.worker_id for worker in workers}
    if workers:
        served = set(proposal.allocation.values())
        sent = {level for route in proposal.routes for level, part in route.levels.items() if part > 0}
        assert sent | {cascade.next_level for cascade in proposal.cascades} <= served
        assert all(math.isclose(sum(route.levels.values()), 1) for route in proposal.routes)


def after(before: Plan, *workers: str, demand_rps: float = 1.0, sheds: bool = False, **more: Any) -> Plan | None:
    fleet = tuple(a_worker(worker, before.allocation[worker]) for worker in workers)
    seen = Observation(now_ms=NOW_MS, demand_rps=demand_rps, workers=fleet, **more)
    return fallback_plan(before, "the solver broke", seen, a_catalog(), Rules(sheds=sheds))


def test_where_all_are_there_the_plan_stays_as_it_is() -> None:
    assert after(a_plan(), "w-1", "w-2") is None


def test_where_some_are_gone_the_plan_goes_on_without_them_and_says_why() -> None:
    plan = after(a_plan(version=7), "w-1")
    assert plan is not None
    assert (plan.version, plan.policy, plan.allocation) == (8, a_plan().policy, {"w-1": "light"})
    assert "plan 7 stays, without w-2, which left: the solver broke" in plan.reason


def test_what_waits_for_a_variant_of_which_the_only_worker_is_gone_has_one_though_the_policy_fails() -> None:
    before = a_plan(allocation={"w-1": "light", "w-2": "light", "w-3": "light"}, cascades=())
    need = Need(("heavy",), 0.1, {"default": 0.02}, 1, NOW_MS - 500, NOW_MS - 500)
    plan = after(before, "w-1", "w-2", needs=(need,))
    assert plan is not None
    assert sorted(plan.allocation.values()) == ["heavy", "light"]


def test_the_place_of_a_worker_that_stays_reserved_is_given_to_no_other() -> None:
    before = a_plan(
        allocation={"w-1": "light", "w-2": "heavy", "w-3": "light", "w-4": "light"},
        routes=(Route(levels={"light": 1.0}),), cascades=(),
    )  # fmt: skip
    need = Need(("heavy",), 0.1, {"default": 0.8}, 1, NOW_MS - 500, NOW_MS - 500)
    plan = after(before, "w-1", "w-2", "w-3", demand_rps=5.0, needs=(need,))
    assert plan is not None
    assert plan.allocation == {"w-1": "light", "w-2": "heavy", "w-3": "light"}


def test_what_the_rest_cannot_generate_is_shed_where_plans_shed() -> None:
    patient, shedding = (after(a_plan(), "w-1", demand_rps=10_000.0, sheds=sheds) for sheds in (False, True))
    assert patient is not None
    assert shedding is not None
    assert patient.admission is None
    assert shedding.admission is not None


def test_a_plan_of_a_catalog_that_is_no_more_is_refused() -> None:
    with pytest.raises(Unknown, match="old"):
        after(a_plan(routes=(Route(levels={"old": 1.0}),)), "w-1")

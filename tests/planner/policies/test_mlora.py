"""`mlora` places components and dispatches by cost; its baseline differs in nothing but that."""

import dataclasses

import pytest

from planner.components.eviction import eviction_under, lru, utility
from planner.control.planning import Order, PlannerLogic
from planner.control.propose import Rules, propose
from planner.control.validity import check_live
from planner.observation.needs import Need
from planner.observation.observation import Observation
from planner.policies import named, proteus
from schemas.messages import Pin, Plan, ResidencyPlan
from tests.builders import a_catalog, an_observation
from tests.planner.control.test_residency import LIBRARY, SKEWED, asked, observed, seeing

BOTH = ("mlora", "lru-round-robin")


def test_they_differ_by_components_and_dispatch_alone() -> None:
    placing, baseline = (named(policy)(an_observation(4), a_catalog(), {}, {}) for policy in BOTH)
    assert (placing.dispatch, placing.places_components) == ("least-cost", True)
    assert (baseline.dispatch, baseline.places_components) == ("round-robin", False)
    assert dataclasses.replace(baseline, dispatch="least-cost", places_components=True) == placing


@pytest.mark.parametrize("policy", BOTH)
def test_levels_are_those_of_the_integer_program_by_capacity_one_job_at_a_time(policy: str) -> None:
    seen = an_observation(4, demand_rps=30.0, slo_ms=5000.0)
    ours = named(policy)(seen, a_catalog(), {}, {"overprovision": 1.2})
    wanted = proteus.plan(seen, a_catalog(), {}, {"overprovision": 1.2, "even": 0, "batch": 1})
    assert (ours.routes, ours.allocation, ours.batch) == (wanted.routes, wanted.allocation, wanted.batch)


def test_only_the_plan_of_mlora_says_who_holds_what_and_live_roles_obey_both() -> None:
    plans = {}
    for policy in BOTH:
        logic = PlannerLogic(LIBRARY, named, Order(policy), period_ms=1000, silent_ms=3000)
        decision = logic.decide(with_demand(), NoPlans())
        assert decision.plan is not None
        check_live(decision.plan, LIBRARY)
        plans[policy] = decision.plan
    assert plans["lru-round-robin"].residency is None
    residency = plans["mlora"].residency
    assert residency is not None
    held = [held for worker, held in residency.workers.items() if plans["mlora"].allocation[worker] == "styles"]
    assert held
    assert all(each["base:b00"] == "device" for each in held)
    assert {plans["mlora"].allocation[worker] for worker in residency.workers} == {"styles"}


def test_joint_places_components_and_charges_for_loads_where_a_variant_lists_bases_and_nowhere_else() -> None:
    decided = PlannerLogic(LIBRARY, named, Order("joint"), period_ms=1000, silent_ms=3000).decide(
        with_demand(), NoPlans()
    )
    assert decided.plan is not None
    assert decided.plan.dispatch == "least-cost"
    assert decided.plan.residency is not None
    assert any("base:b00" in held for held in decided.plan.residency.workers.values())
    plain = named("joint")(an_observation(3), a_catalog(), {}, {})
    assert (plain.dispatch, plain.places_components) == ("least-work", False)
    assert named("joint")(an_observation(0), LIBRARY, {}, {}).places_components


def test_where_nothing_is_asked_of_components_mlora_plans_levels_as_ever() -> None:
    proposal = propose(named("mlora"), an_observation(3), a_catalog(), {}, {}, Rules())
    assert proposal.residency is None
    assert set(proposal.allocation.values()) <= {"light", "heavy"}


def test_workers_evict_by_worth_under_a_residency_and_the_least_recently_used_without() -> None:
    assert eviction_under(ResidencyPlan(workers={})) is utility
    assert eviction_under(None) is lru


class NoPlans:
    """Nobody has planned yet."""

    plan: Plan | None = None
    pin: Pin | None = None
    newest = 0
    is_ordered = False

    def find(self, _version: int) -> Plan | None:
        return None


STYLES = Need(("styles",), 2.0, {"default": 0.2}, 1, 1, 1)


def with_demand() -> Observation:
    seen = seeing()
    return dataclasses.replace(seen, demand_rps=4.0, needs=(STYLES,), components=observed(asked(*SKEWED)))


class BackTo(NoPlans):
    """An operator went back to an earlier plan."""

    def __init__(self, plan: Plan) -> None:
        self.earlier, self.plan = plan, dataclasses.replace(plan, version=7, policy="other", residency=None)
        self.pin, self.newest = Pin(policy="", plan_version=plan.version), 7

    def find(self, _version: int) -> Plan:
        return self.earlier


def test_who_goes_back_to_a_plan_of_mlora_has_its_components_placed_for_the_workers_of_now() -> None:
    seen = with_demand()
    first = PlannerLogic(LIBRARY, named, Order("mlora"), period_ms=1000, silent_ms=3000).decide(seen, NoPlans()).plan
    assert first is not None
    assert first.residency is not None
    styles = [worker for worker, variant in first.allocation.items() if variant == "styles"]
    fewer = dataclasses.replace(
        first,
        residency=dataclasses.replace(
            first.residency, workers={w: held for w, held in first.residency.workers.items() if w != styles[0]}
        ),
    )
    logic = PlannerLogic(LIBRARY, named, Order("random-split"), period_ms=1000, silent_ms=3000)
    homes = tuple(dataclasses.replace(w, variant=first.allocation[w.worker_id]) for w in seen.workers)
    again = logic.decide(dataclasses.replace(seen, workers=homes), BackTo(fewer)).plan
    assert again is not None
    assert again.residency is not None
    assert again.residency.workers == first.residency.workers

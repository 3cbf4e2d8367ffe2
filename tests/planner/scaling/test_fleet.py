"""A planner's scaling, plan by plan: targets, who serves what, what is remembered, and what other rules do to it."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from planner.control.planning import Order, PlannerLogic
from planner.control.proposal import ALWAYS, NEVER, PlanProposal, PolicyTerms, on_terms
from planner.control.propose import Rules
from planner.observation.components import ObservedComponents, ObservedDemand
from planner.observation.observation import Observation
from planner.observation.workers import ReceivedHeartbeat
from planner.policies.clipper_heavy import plan as all_heavy
from planner.scaling.fleet import InvalidScaling, ScaleRules
from schemas.errors import Unknown
from schemas.messages import Pin, Plan, ScalePlan, WorkerComponents
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_worker, sized_variant

PERIOD_MS = 10_000
CATALOG = a_catalog(on_request={"styles": sized_variant(latency_ms={1: 100.0})})
heavy_that_scales = on_terms(PolicyTerms(scales=True, hysteresis=False))(all_heavy.plan)


class Fleet:
    """Live workers that obey each plan at once, the planner's logic, and its plan in force."""

    def __init__(self, workers: int, **rules: Any) -> None:
        self.rules = ScaleRules(**{"max_workers": 16} | rules)
        self.logic = self._logic()
        self.ids = [f"w-{n:02}" for n in range(workers)]
        self.serves: dict[str, str] = {}
        self.plan: Plan | None = None
        self.pin: Pin | None = None
        self.is_ordered = False
        self.newest, self.now_ms = 0, NOW_MS
        self.policy: Any = heavy_that_scales
        self.components: ObservedComponents | None = None

    def _logic(self) -> PlannerLogic:
        return PlannerLogic(
            CATALOG, lambda _name: self.policy, Order("p", {"batch": 1}), period_ms=5000, silent_ms=3000,
            rules=Rules(scale=self.rules, sheds=False),
        )  # fmt: skip

    def restart_planner(self) -> None:
        self.logic = self._logic()

    def find(self, _version: int) -> Plan | None:
        return None

    def seen(self, in_flight: Mapping[str, Mapping[str, float]], painting: Iterable[str] = ()) -> Observation:
        allocation = self.plan.allocation if self.plan else {}
        workers = tuple(
            a_worker(
                name, self.serves.get(name, ""), allocated=allocation.get(name, ""),
                state="painting" if name in painting else "ready",
            )
            for name in sorted(self.ids)
        )  # fmt: skip
        flights = {tenant: dict(each) for tenant, each in in_flight.items()}
        return Observation(
            now_ms=self.now_ms, demand_rps=1.0, workers=workers, in_flight=flights,
            components=self.components,
        )  # fmt: skip

    def step(self, in_flight: float | Mapping[str, Mapping[str, float]], obeys: bool = True, **seen: Any) -> ScalePlan:
        """A period later: the plan in force then, obeyed by all workers if `obeys`."""
        self.now_ms += PERIOD_MS
        flights = in_flight if not isinstance(in_flight, float) else {"t": {"": in_flight}} if in_flight else {}
        decision = self.logic.decide(self.seen(flights, **seen), self)
        if decision.plan is not None:
            self.plan, self.newest = decision.plan, decision.plan.version
        self.plan = decision.remembered or self.plan
        assert self.plan is not None
        assert self.plan.scale is not None
        if obeys:
            self.serves = dict(self.plan.allocation)
        return self.plan.scale

    def wants(self) -> int:
        assert self.plan is not None
        assert self.plan.scale is not None
        return sum(self.plan.scale.targets.values()) + self.plan.scale.warm

    def supply(self) -> None:
        """Start the workers that are wanted and missing."""
        self.ids += [f"w-{n:02}" for n in range(len(self.ids), self.wants())]


def test_a_fleet_grows_by_doubling_to_what_is_in_flight_and_one_period_alone_changes_nothing() -> None:
    noisy = Fleet(2)
    assert [noisy.step(each).targets["heavy"] for each in (1.0, 30.0, 1.0, 30.0)] == [2, 2, 2, 2]
    fleet, targets = Fleet(2), []
    for _ in range(12):
        targets.append(fleet.step(10.0).targets["heavy"])
        fleet.supply()
    assert sorted(set(targets)) == [2, 4, 8, 13]
    assert len(fleet.plan.allocation) == 13  # type: ignore[union-attr]
    assert "scaled to 13 workers of heavy" in fleet.plan.reason  # type: ignore[union-attr]


def test_what_is_ordered_and_has_not_come_is_not_ordered_again() -> None:
    fleet = Fleet(2)
    targets = [fleet.step(10.0).targets["heavy"] for _ in range(12)]
    assert targets[-1] == 4, "two workers are there, and two are on their way for as long as nobody starts them"


def test_from_zero_the_first_worker_is_asked_for_at_once_and_the_pool_gives_it() -> None:
    fleet = Fleet(1, warm=1)
    assert fleet.step(0.0).targets == {"heavy": 0}
    assert fleet.plan is not None
    assert fleet.plan.allocation == {}
    fleet.now_ms += 200 - PERIOD_MS
    scale = fleet.step(1.0)
    assert (scale.targets, scale.reasons) == ({"heavy": 1}, {"heavy": "from-zero"})
    assert fleet.plan.allocation == {"w-00": "heavy"}
    assert fleet.wants() == 2, "the pool is filled again"


def test_a_fleet_shrinks_to_zero_where_nothing_is_in_flight_for_ten_minutes() -> None:
    fleet = Fleet(2)
    fleet.step(1.0)
    targets = [fleet.step(0.0).targets.get("heavy", 0) for _ in range(140)]
    assert targets[0] == 2
    assert targets[-1] == 0
    assert all(before - after in (0, 1) for before, after in itertools.pairwise(targets))
    assert fleet.plan is not None
    assert fleet.plan.allocation == {}


def test_a_variant_that_requests_name_is_scaled_by_itself_and_the_levels_keep_their_workers() -> None:
    fleet = Fleet(4, warm=2)
    fleet.step({"t": {"": 1.0}})
    assert fleet.plan is not None
    scale = fleet.step({"t": {"": 1.0, "styles": 1.0, "light": 1.0}})
    assert scale.targets == {"heavy": 2, "light": 1, "styles": 1}
    assert Counter(fleet.plan.allocation.values()) == {"heavy": 2, "light": 1, "styles": 1}
    assert fleet.step({"t": {"heavy": 1.0}}).targets["heavy"] == 2, "the level's own name is no variant beside it"


def test_where_nobody_starts_workers_a_variant_that_requests_name_gets_one_of_the_levels() -> None:
    # octoai pinned on two workers without `pochade scale`: its plan counted on a third one
    fleet = Fleet(2)
    fleet.step(1.6)
    both = {"t": {"": 1.6, "styles": 0.5}}
    assert fleet.step(both).targets == {"heavy": 2, "styles": 1}
    assert Counter(fleet.plan.allocation.values()) == {"heavy": 2}, "the third may still come"
    for _ in range(4):
        fleet.step(both)
    assert Counter(fleet.plan.allocation.values()) == {"heavy": 1, "styles": 1}
    for _ in range(3):
        assert fleet.step(both).targets == {"heavy": 2, "styles": 1}, "what is wanted of whoever starts workers"
    assert Counter(fleet.plan.allocation.values()) == {"heavy": 1, "styles": 1}
    fleet.ids = [*fleet.ids, "w-99"]
    fleet.step(both)
    assert Counter(fleet.plan.allocation.values()) == {"heavy": 2, "styles": 1}


def test_a_lone_worker_is_lent_to_nobody() -> None:
    fleet = Fleet(1)
    fleet.step(0.5)
    for _ in range(5):
        fleet.step({"t": {"": 0.5, "styles": 0.5}})
    assert Counter(fleet.plan.allocation.values()) == {"heavy": 1}


def test_of_too_many_workers_the_one_leaves_whose_cost_by_eq_4_is_greatest() -> None:
    fleet = Fleet(3)
    fleet.step(0.0)
    assert fleet.plan is not None
    assert len(fleet.plan.allocation) == 3
    for _ in range(100):
        fleet.step(0.5, painting=("w-01",))
        if len(fleet.plan.allocation) < 3:
            break
    assert sorted(fleet.plan.allocation) == ["w-00", "w-02"]


def test_of_the_pool_that_worker_is_taken_which_holds_what_requests_of_late_needed() -> None:
    for holder, other in (("w-00", "w-01"), ("w-01", "w-00")):
        fleet = Fleet(2, warm=2)
        fleet.step(0.0)
        held = {holder: WorkerComponents(held={"device": ("base:poster", "adapter:candy")})}
        demand = ObservedDemand(rps=1.0, requests={"base:poster": (3.0, NOW_MS), "adapter:candy": (3.0, NOW_MS)})
        fleet.components = ObservedComponents(demand={"styles": demand}, workers=held)
        fleet.step({"t": {"styles": 1.0}})
        assert fleet.plan is not None
        assert fleet.plan.allocation == {holder: "styles"}, f"{other} would load a base"


def test_of_too_many_workers_that_one_leaves_which_lacks_what_requests_of_late_needed() -> None:
    fleet = Fleet(2)
    fleet.serves = {"w-00": "styles", "w-01": "styles"}
    both = {name: WorkerComponents(held={"device": ("base:chalk",)}) for name in fleet.ids}
    both["w-01"] = WorkerComponents(held={"device": ("base:poster",)})
    demand = ObservedDemand(rps=1.0, requests={"base:poster": (3.0, NOW_MS)})
    fleet.components = ObservedComponents(demand={"styles": demand}, workers=both)
    fleet.step({"t": {"styles": 1.0}})
    assert fleet.plan is not None
    while len(fleet.plan.allocation) == 2:
        fleet.step({"t": {"styles": 0.1}})
    assert fleet.plan.allocation == {"w-01": "styles"}


def test_a_worker_that_is_about_to_leave_comes_back_before_one_from_the_pool() -> None:
    fleet = Fleet(3, warm=0)
    fleet.step(1.0)
    fleet.serves = {"w-01": "heavy", "w-02": "heavy"}
    assert fleet.plan is not None
    assert fleet.plan.scale is not None
    scale = dataclasses.replace(fleet.plan.scale, targets={"heavy": 1})
    fleet.plan = dataclasses.replace(fleet.plan, allocation={"w-02": "heavy"}, scale=scale)
    fleet.rules = ScaleRules(max_workers=16, minimum={"heavy": 2})
    fleet.restart_planner()
    fleet.step(0.0)
    assert sorted(fleet.plan.allocation) == ["w-01", "w-02"]


def test_the_fleet_as_it_is_counts_when_scaling_begins_and_what_is_beyond_the_pool_serves() -> None:
    assert Fleet(5, warm=2).step(1.0).targets == {"heavy": 3}
    fleet = Fleet(5, warm=2)
    fleet.serves = {"w-00": "heavy", "w-01": "styles"}
    assert fleet.step({"t": {"": 1.0, "styles": 1.0}}).targets == {"heavy": 2, "styles": 1}
    fleet = Fleet(2)
    fleet.serves = {"w-00": "light", "w-01": "light"}
    assert fleet.step(1.0).targets == {"heavy": 2}, "nothing in flight names what they serve"
    assert Fleet(9, max_workers=4).step(1.0).targets == {"heavy": 4}


def test_workers_that_start_before_the_first_request_serve_and_later_ones_are_the_pool() -> None:
    fleet = Fleet(0, warm=1)
    targets = []
    for in_flight in (0.0, 0.0, 0.0, 1.0, 1.0):
        targets.append(fleet.step({"t": {"": in_flight}} if in_flight else {}).targets["heavy"])
        fleet.ids.append(f"w-{len(fleet.ids):02}")
    assert targets == [0, 0, 1, 2, 2]


def test_a_restarted_planner_goes_on_from_the_plan_in_force() -> None:
    one, other = Fleet(2), Fleet(2)
    for fleet in (one, other):
        for _ in range(3):
            fleet.step(10.0)
    assert one.step(10.0).targets != Fleet(2).step(10.0).targets, "the test needs something to remember"
    one, other = Fleet(2), Fleet(2)
    for in_flight in (1.0, 10.0, 10.0):
        one.step(in_flight)
        other.step(in_flight)
    assert other.plan is not None
    assert other.plan.scale is not None
    assert one.logic._scaling._snapshot()
    newest = dataclasses.replace(other.plan.scale, memory=other.logic._scaling._snapshot())
    other.plan = dataclasses.replace(other.plan, scale=newest)
    other.restart_planner()
    assert [one.step(10.0).targets for _ in range(4)] == [other.step(10.0).targets for _ in range(4)]


def test_what_scaling_remembers_goes_beside_the_plan_that_stays() -> None:
    fleet = Fleet(2)
    for _ in range(13):
        fleet.step(1.0)
    assert fleet.newest == 1
    assert fleet.plan is not None
    assert fleet.plan.scale is not None
    assert fleet.plan.scale.memory == fleet.logic._scaling._snapshot()


def test_the_maximum_holds_with_the_pool_and_more_than_that_is_saturated() -> None:
    fleet = Fleet(4, max_workers=5, warm=2)
    for _ in range(8):
        scale = fleet.step(40.0)
        fleet.supply()
    assert (scale.targets, scale.warm) == ({"heavy": 5}, 0)
    assert scale.reasons == {"heavy": "saturated"}
    assert scale.wanted == {"heavy": 50}


def test_the_pool_is_sized_by_past_scale_ups_within_its_limits() -> None:
    fleet = Fleet(2, warm=1, max_warm=3)
    assert fleet.step(1.0).warm == 1
    for _ in range(8):
        scale = fleet.step(8.0)
        fleet.supply()
    assert scale.warm == 3


def test_a_tenant_gets_no_more_workers_than_its_maximum() -> None:
    fleet = Fleet(1, max_by_tenant={"small": 6})
    for _ in range(20):
        scale = fleet.step({"small": {"": 30.0}})
        fleet.supply()
    assert 4 <= scale.targets["heavy"] <= 6
    assert scale.reasons == {"heavy": "saturated"}


def test_whether_a_fleet_is_scaled_is_the_policys_to_ask_and_the_deployments_to_say() -> None:
    def plan_of(rule: str, policy: Any) -> Plan:
        fleet = Fleet(4, when=rule)
        fleet.policy = policy
        plan = fleet.logic.decide(fleet.seen({}), fleet).plan
        assert plan is not None
        return plan

    assert plan_of("policy", heavy_that_scales).scale is not None
    assert plan_of("policy", all_heavy).scale is None
    assert plan_of(ALWAYS, all_heavy).scale is not None
    assert plan_of(NEVER, heavy_that_scales).scale is None


def test_a_request_for_what_has_no_worker_calls_for_a_plan_before_the_period_is_over() -> None:
    fleet = Fleet(1, warm=1)
    fleet.step(0.0)
    beats = {"w-00": ReceivedHeartbeat(a_heartbeat(worker_id="w-00", variant=""), fleet.now_ms)}
    assert fleet.logic.due(fleet.now_ms, beats, fleet) is not None
    assert fleet.logic.due(fleet.now_ms + 200, beats, fleet) is None
    due = fleet.logic.due(fleet.now_ms + 400, beats, fleet, asked=[""])
    assert due is not None
    assert due.why == "requests wait for a level, which no worker serves"
    assert fleet.logic.due(fleet.now_ms + 600, beats, fleet, asked=[""]) is None


def test_a_policy_that_fails_leaves_a_scaled_fleets_pool_alone() -> None:
    fleet = Fleet(4, warm=2)
    fleet.step(1.0)

    def fails(*_: Any) -> PlanProposal:
        raise ValueError("no")

    fleet.policy = on_terms(PolicyTerms(scales=True))(fails)
    assert fleet.plan is not None
    lost = sorted(fleet.plan.allocation)[0]
    fleet.ids.remove(lost)
    fleet.step(1.0)
    assert lost not in fleet.plan.allocation
    assert len(fleet.plan.allocation) == 2, "one of the pool takes the lost worker's place"
    assert fleet.wants() == 4


def test_limits_that_contradict_each_other_are_refused_with_the_limit() -> None:
    with pytest.raises(InvalidScaling, match="at most 2 workers: got 3"):
        ScaleRules(max_workers=2, minimum={"heavy": 3})
    with pytest.raises(InvalidScaling, match="0 to 2 workers: got 3"):
        ScaleRules(max_workers=2, warm=3)
    with pytest.raises(Unknown, match="hevy"):
        Fleet(1, minimum={"hevy": 1})

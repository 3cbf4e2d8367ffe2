"""Which plan follows the one in force: what fails changes nothing, and a move must pay."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from planner.catalog.model import Catalog
from planner.control import planning
from planner.control.planning import (
    FALLBACK_PLAN,
    MEMORY_LOST,
    NO_GAIN,
    POLICY_FAILED,
    POLICY_LATE,
    Order,
    PlanDecision,
    PlannerLogic,
    PolicyTimeout,
)
from planner.control.proposal import ALWAYS, NEVER, PlanProposal, Policy, PolicyOnTerms, terms_of
from planner.control.propose import Rules
from planner.control.validity import check
from planner.observation.forecast import ewma, trend
from planner.observation.needs import Need
from planner.observation.observation import Observation, Served
from planner.observation.workers import ReceivedHeartbeat
from planner.policies import named
from planner.scaling.fleet import ScaleRules
from schemas.errors import PochadeError
from schemas.messages import Pin, Plan, ScalePlan
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, a_reuse_plan, a_worker, an_observation

PERIOD_MS = 5000
RISING = (10,) * 50 + tuple(range(0, 100, 10))
AS_IN_THE_PAPER = named("random-split")
ON_NO_TERMS: Policy = lambda *about: named("random-split")(*about)  # noqa: E731


@dataclasses.dataclass
class Plans:
    """The plans in force of a test."""

    plan: Plan | None = None
    pin: Pin | None = None
    newest: int = 0
    earlier: tuple[Plan, ...] = ()
    is_ordered: bool = False

    def find(self, version: int) -> Plan | None:
        return next((plan for plan in self.earlier if plan.version == version), None)


def a_logic(
    order: Order | None = None, rules: Rules | None = None, policies: Callable[[str], Policy] = named
) -> PlannerLogic:
    return PlannerLogic(
        a_catalog(), policies, order or Order("random-split"), period_ms=PERIOD_MS, silent_ms=3000,
        rules=rules or Rules(),
    )  # fmt: skip


def decided(
    order: Order, seen: Observation, before: Plan | None, rules: Rules | None = None, newest: int = 0, **more: Any
) -> PlanDecision:
    return a_logic(order, rules, **more).decide(seen, Plans(before, newest=newest))


def published(order: Order, seen: Observation, before: Plan | None, rules: Rules | None = None, **more: Any) -> Plan:
    plan = decided(order, seen, before, rules, **more).plan
    assert plan is not None
    return plan


def serving(**variants: str) -> Observation:
    workers = tuple(a_worker(name.replace("_", "-"), variant, allocated=variant) for name, variant in variants.items())
    return an_observation(workers=workers)


def in_force(seen: Observation) -> Plan:
    return published(Order("random-split"), seen, None)


def test_what_the_workers_cannot_generate_is_shed_by_the_plan_unless_the_rules_say_otherwise() -> None:
    busy, order = dataclasses.replace(serving(w_1="heavy"), demand_rps=50.0), Order("clipper-heavy", {"batch": 1})
    plan = published(order, busy, None)
    assert plan.admission is not None
    assert plan.admission.shares["standard"] == pytest.approx(0.1)
    again = published(order, dataclasses.replace(busy, demand_rps=4.0), plan)
    assert again.admission is None, "all are let in again at once"
    assert published(order, busy, None, Rules(sheds=False)).admission is None


def test_the_share_to_explore_is_spread_over_the_served_levels_once() -> None:
    seen, curious, order = serving(w_1="light", w_2="heavy"), Rules(explore=0.1), Order("diffserve-static")
    plan = published(order, seen, None, curious)
    assert plan.routes[0].levels == pytest.approx({"light": 0.95, "heavy": 0.05})
    assert decided(order, seen, plan, curious).plan is None, "the same decision is not published again"
    back = a_logic(rules=curious).decide(seen, Plans(a_plan(version=2), Pin(policy="", plan_version=1), 2, (plan,)))
    assert back.plan is not None
    assert back.plan.routes == plan.routes, "an earlier plan's routes are explored already"


def test_how_jobs_are_dispatched_may_be_ruled() -> None:
    assert published(Order("random-split"), serving(w_1="light"), None, Rules(dispatch="pull")).dispatch == "pull"


def broken(_name: str) -> Policy:
    def raises(*_: object) -> PlanProposal:
        raise ZeroDivisionError("in the solver")

    return raises


def test_a_policy_that_fails_leaves_the_plan_in_force_and_is_counted() -> None:
    seen = serving(w_1="light", w_2="heavy")
    decision = decided(Order("p"), seen, a_plan(), policies=broken)
    assert (decision.plan, decision.fallbacks) == (None, (POLICY_FAILED,))
    assert decision.reason == "policy p made no plan: ZeroDivisionError: in the solver"
    assert isinstance(decision.error, ZeroDivisionError)


def test_a_policy_of_a_package_that_cannot_be_loaded_leaves_the_plan_in_force() -> None:
    def unloadable(name: str) -> Policy:
        raise PochadeError(f"policy {name!r} of package sketches cannot be loaded")

    decision = decided(Order("p"), serving(w_1="light", w_2="heavy"), a_plan(), policies=unloadable)
    assert (decision.plan, decision.fallbacks) == (None, (POLICY_FAILED,))
    assert "package sketches cannot be loaded" in decision.reason


def test_a_policy_that_is_late_or_unknown_is_counted_as_what_it_is() -> None:
    def late(_policy: str, _propose: Callable[[], PlanProposal]) -> PlanProposal:
        raise PolicyTimeout("waits")

    assert a_logic().decide(serving(), Plans(a_plan()), late).fallbacks == (POLICY_LATE, FALLBACK_PLAN)
    unknown = decided(Order("no-such"), serving(w_1="light", w_2="heavy"), a_plan())
    assert (unknown.plan, unknown.fallbacks) == (None, (POLICY_FAILED,))


def test_where_others_obey_a_plan_that_was_refused_here_even_the_same_decision_is_published_above_it() -> None:
    seen, before, order = (
        serving(w_1="light", w_2="heavy"),
        in_force(serving(w_1="light", w_2="heavy")),
        Order("random-split"),
    )
    assert decided(order, seen, before, newest=before.version).plan is None
    plan = published(order, seen, before, newest=9)
    assert plan == dataclasses.replace(before, version=10, reason=plan.reason, expected=plan.expected)
    assert published(order, seen, None, newest=9).version == 10


def test_a_proposal_that_contradicts_the_catalog_is_not_published() -> None:
    def contradicts(name: str) -> Policy:
        return lambda *arguments: dataclasses.replace(named(name)(*arguments), batch={"lihgt": 1})

    assert decided(Order("random-split"), serving(w_1="light"), None, policies=contradicts).plan is None


def test_when_a_policy_fails_as_workers_vanish_the_plan_goes_on_with_those_left() -> None:
    decision = decided(Order("p"), serving(w_1="light"), a_plan(version=7), policies=broken)
    plan = decision.plan
    assert plan is not None
    assert decision.fallbacks == (POLICY_FAILED, FALLBACK_PLAN)
    assert (plan.version, plan.policy, plan.allocation, plan.cascades) == (8, "test", {"w-1": "light"}, ())
    assert "without w-2, which left" in plan.reason
    assert "ZeroDivisionError: in the solver" in plan.reason
    assert published(Order("p"), serving(w_1="light"), a_plan(version=7), newest=9, policies=broken).version == 10


def test_a_plan_of_a_catalog_that_is_no_more_cannot_go_on() -> None:
    decision = decided(Order("p"), serving(w_1="light"), a_plan(batch={"old": 1}), policies=broken)
    assert (decision.plan, decision.fallbacks) == (None, (POLICY_FAILED,))
    assert decision.carry_over_error is not None


def test_without_a_plan_before_a_failing_policy_makes_none() -> None:
    assert decided(Order("p"), serving(w_1="light"), None, policies=broken).plan is None


def test_the_same_decision_stays() -> None:
    before = in_force(serving(w_1="light", w_2="heavy"))
    decision = decided(Order("random-split"), serving(w_1="light", w_2="heavy"), before)
    assert decision == PlanDecision(expected=before.expected)


def test_a_move_that_does_not_pay_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = serving(w_1="light", w_2="heavy")
    before = in_force(seen)
    asked: list[float] = []
    monkeypatch.setattr(planning, "should_switch", lambda change: bool(asked.append(change.away_s)))
    decision = decided(Order("random-split", {"heavy_share": 1.0}), seen, before, Rules(hysteresis=ALWAYS))
    assert (decision.plan, decision.fallbacks) == (None, (NO_GAIN,))
    assert asked == [pytest.approx(0.07)], "20 ms to drain light and 50 to load"


@pytest.mark.parametrize("why", ["another policy", "a worker lost", "a worker joined", "nobody moves", "one waits"])
def test_nobody_asks_what_a_change_costs_that_must_be(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    seen = serving(w_1="light", w_2="heavy")
    before = in_force(seen)
    monkeypatch.setattr(planning, "should_switch", lambda _: False)
    order = Order("random-split", {"heavy_share": 1.0})
    if why == "another policy":
        order = Order("clipper-heavy")
    elif why == "a worker lost":
        seen = serving(w_1="light")
    elif why == "a worker joined":
        seen = serving(w_1="light", w_2="heavy", w_3="")
    elif why == "one waits":
        seen = serving(w_1="light", w_2="light")
        before = published(Order("random-split", {"heavy_share": 0.0}), seen, None)
        assert set(before.allocation.values()) == {"light"}
        order = Order("random-split", {"heavy_share": 0.5})
        assert decided(order, seen, before, Rules(hysteresis=ALWAYS)).plan is None
        need = Need(("heavy",), 0.1, {"default": 0.02}, 1, NOW_MS - 500, NOW_MS - 500)
        seen = dataclasses.replace(seen, needs=(need,))
    else:
        order = Order("random-split", {"heavy_share": 0.4})
    assert decided(order, seen, before, Rules(hysteresis=ALWAYS)).plan is not None


@pytest.mark.parametrize(
    ("policy", "hysteresis", "asks"),
    [
        (AS_IN_THE_PAPER, "policy", False), (AS_IN_THE_PAPER, ALWAYS, True), (AS_IN_THE_PAPER, NEVER, False),
        (ON_NO_TERMS, "policy", True), (ON_NO_TERMS, NEVER, False),
    ],
)  # fmt: skip
def test_what_a_change_costs_is_asked_where_the_policy_or_the_rules_say_so(
    monkeypatch: pytest.MonkeyPatch, policy: Policy, hysteresis: str, asks: bool
) -> None:
    """As published no policy of the papers weighs its moves."""
    seen = serving(w_1="light", w_2="heavy")
    before, asked = in_force(seen), list[float]()
    monkeypatch.setattr(planning, "should_switch", lambda change: bool(asked.append(change.away_s)))
    decision = decided(
        Order("random-split", {"heavy_share": 1.0}), seen, before, Rules(hysteresis=hysteresis),
        policies=lambda _name: policy,
    )  # fmt: skip
    assert (bool(asked), decision.plan is None) == (asks, asks)


@pytest.mark.parametrize(
    ("policy", "forecast", "expected"),
    [
        (AS_IN_THE_PAPER, "policy", ewma(RISING)), (AS_IN_THE_PAPER, "last", 90.0),
        (ON_NO_TERMS, "policy", trend(RISING, 10).burst_rps), (ON_NO_TERMS, "ewma", ewma(RISING)),
    ],
)  # fmt: skip
def test_a_policy_plans_for_its_own_forecast_unless_the_rules_name_another(
    policy: Policy, forecast: str, expected: float
) -> None:
    shown: list[float] = []

    def watched(*about: Any) -> PlanProposal:
        shown.append(about[0].planning_rps)
        return policy(*about)

    probe = PolicyOnTerms(watched, terms_of(policy))
    seen = dataclasses.replace(serving(w_1="light", w_2="heavy"), counts=RISING)
    rules = Rules(forecast=forecast, horizon_s=10)
    decided(Order("random-split"), seen, None, rules, policies=lambda _name: probe)
    assert shown == [pytest.approx(expected)]
    known = dataclasses.replace(seen, forecast_rps=3.0)
    decided(Order("random-split"), known, None, rules, policies=lambda _name: probe)
    assert shown[1:] == [3.0], "who asks what would be planned for a demand is answered for that one"


def test_a_change_that_pays_is_made() -> None:
    seen = dataclasses.replace(serving(w_1="light", w_2="heavy"), demand_rps=30.0)
    after = published(Order("random-split", {"heavy_share": 0.0}), seen, in_force(seen))
    assert set(after.allocation.values()) == {"light"}, "one heavy worker cannot do half of 30 a second"
    assert after.created_ms == NOW_MS


def test_a_plan_is_due_at_once_and_then_when_something_calls_for_it() -> None:
    logic, plans = a_logic(), Plans()
    heartbeats = {"w-1": ReceivedHeartbeat(a_heartbeat(), NOW_MS)}

    def why(after_ms: int) -> str:
        request = logic.due(NOW_MS + after_ms, heartbeats, plans)
        return request.why if request else ""

    assert [why(0), why(200)] == ["the first plan", ""]
    logic.begin()
    assert [why(400), why(600)] == ["the first plan", ""], "who begins to lead plans at once"
    plans.pin = Pin(policy="p")
    assert [why(800), why(1000)] == ["an operator ordered it", ""]
    logic.end_period()
    assert [why(1200), why(1400)] == ["the period is over", ""]
    heartbeats.clear()
    assert [why(1600), why(1600 + PERIOD_MS)] == ["w-1 left", "the period is over"]


def test_whether_a_plan_may_be_due_is_reported_by_period_and_backlog() -> None:
    logic = a_logic()
    assert logic.may_be_due(NOW_MS, 0.0)
    logic.due(NOW_MS, {}, Plans())
    assert [logic.may_be_due(NOW_MS + PERIOD_MS - 1, ms) for ms in (1000.0, 1001.0)] == [False, True]
    assert logic.may_be_due(NOW_MS + PERIOD_MS, 0.0)


def test_a_live_planner_publishes_nothing_that_the_simulator_alone_can_obey() -> None:
    seen = serving(w_1="light", w_2="heavy")

    def by_images(_name: str) -> Policy:
        def propose(*about: Any) -> PlanProposal:
            proposal = named("random-split")(*about)
            return dataclasses.replace(proposal, reuse=a_reuse_plan(key="text-image"))

        return propose

    live = decided(Order("random-split"), seen, None, policies=by_images)
    assert live.plan is None
    assert "no worker has the encoder 'text-image'" in live.reason
    simulated = PlannerLogic(
        a_catalog(), by_images, Order("random-split"), period_ms=PERIOD_MS, silent_ms=3000, check=check
    )
    assert simulated.decide(seen, Plans()).plan is not None


def test_a_plan_that_stays_at_a_growing_demand_says_what_the_demand_would_take() -> None:
    order, fleet = Order("clipper-light", {"batch": 1}), serving(w_1="light", w_2="light")
    calm, more = published(order, fleet, None), dataclasses.replace(fleet, demand_rps=40 * fleet.demand_rps)
    grown = decided(order, more, calm, Rules(sheds=False))
    assert grown.plan is None, "all are on the fastest level already"
    assert grown.expected is not None
    assert grown.expected.utilization == 4 > calm.expected.utilization  # type: ignore[union-attr]


def forgetful(_name: str) -> Policy:
    def plans(seen: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]) -> Any:
        if memory:
            raise TypeError("what is remembered has another form")
        return named("random-split")(seen, catalog, memory, parameters)

    return plans


@pytest.mark.parametrize("how", ["policy", "scale"])
def test_a_planner_that_begins_plans_in_spite_of_memories_that_no_policy_has_written(how: str) -> None:
    seen, order = serving(w_1="light", w_2="heavy"), Order("test")
    forged = dataclasses.replace(in_force(seen), policy="test")
    if how == "policy":
        forged, rules = dataclasses.replace(forged, memory='{"rises": 7}'), Rules()
    else:
        scale = ScalePlan(targets={"light": 1}, wanted={}, reasons={}, warm=0, memory='{"scaler": []}')
        forged, rules = dataclasses.replace(forged, scale=scale), Rules(scale=ScaleRules(when="always"))
    logic = a_logic(order, rules, forgetful)
    logic.begin()
    decision = logic.decide(seen, Plans(forged, newest=forged.version))
    assert decision.error is None
    assert MEMORY_LOST in decision.fallbacks


def test_a_memory_of_its_own_is_kept_by_a_planner_whose_policy_fails() -> None:
    seen, logic = serving(w_1="light"), a_logic(Order("test"), policies=forgetful)
    first = logic.decide(seen, Plans()).plan
    assert first is not None
    own = Plans(dataclasses.replace(first, memory='{"mine": 1}'), newest=first.version)
    assert logic.decide(seen, own).fallbacks == (POLICY_FAILED,)


QUIET = an_observation(0, demand_rps=0.0, counts=(0,) * 60, workers=(a_worker("w-1", "light", allocated="light"),))


@pytest.mark.parametrize(
    ("seen", "more", "is_due"),
    [
        (QUIET, {}, False),
        (QUIET, {"heard": 8}, True),
        (QUIET, {"asked": {""}}, True),
        (dataclasses.replace(QUIET, counts=(0, 1)), {}, True),
        (dataclasses.replace(QUIET, served=Served(1, 1.0)), {}, True),
        (dataclasses.replace(QUIET, workers=(a_worker("w-1", "light", state="loading"),)), {}, True),
    ],
)
def test_a_period_in_which_nothing_has_changed_since_a_quiet_look_ends_without_a_plan(
    seen: Observation, more: dict[str, Any], *, is_due: bool
) -> None:
    logic, heartbeats = a_logic(), {"w-1": ReceivedHeartbeat(a_heartbeat(partitions=()), NOW_MS)}
    in_use = Plans(dataclasses.replace(in_force(seen), version=1), newest=1)
    assert logic.due(NOW_MS, heartbeats, in_use, heard=7)
    assert logic.decide(seen, in_use).plan is None
    later_ms = NOW_MS + PERIOD_MS
    heartbeats = {"w-1": ReceivedHeartbeat(a_heartbeat(partitions=()), later_ms)}
    assert (logic.due(later_ms, heartbeats, in_use, **({"heard": 7} | more)) is not None) == is_due


def test_where_nothing_was_ever_asked_for_each_period_is_planned_for() -> None:
    logic, heartbeats = a_logic(), {"w-1": ReceivedHeartbeat(a_heartbeat(partitions=()), NOW_MS)}
    in_use = Plans(in_force(QUIET), newest=1)
    assert logic.due(NOW_MS, heartbeats, in_use)
    logic.decide(QUIET, in_use)
    assert logic.due(
        NOW_MS + PERIOD_MS, {"w-1": ReceivedHeartbeat(a_heartbeat(partitions=()), NOW_MS + PERIOD_MS)}, in_use
    )

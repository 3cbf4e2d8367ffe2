"""What calls for a plan, and when a plan in force stays although a policy drafted another."""

import dataclasses
from typing import Any

import pytest

from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.renewal.replan import (
    HOLD_S,
    Change,
    Expectation,
    Signals,
    away_s,
    change_of,
    expectation_at,
    is_broken,
    only_moves,
    should_switch,
    span_of,
    why_now,
)
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.policies import joint
from schemas.messages import Admission, Cascade, Expected, Plan, Route
from streams.parsing.catalog import parse
from tests.builders import NOW_MS, a_catalog, a_worker

PERIOD_MS = 5000
CALM = Signals(("w-1", "w-2"), (), 500.0)
LIGHT, HEAVY = (Route(levels={"light": 1.0}),), (Route(levels={"heavy": 1.0}),)
PROMISED = Expected(demand_rps=1.0, utilization=0.5, heavy_share=0.0, quality=0.6)

CATALOG = parse(
    """
    [variants.light]
    engine = "profile"
    model = ""
    scheduler = ""
    steps = 1
    guidance = 1.0
    width = 8
    height = 8
    latency_ms = {1 = 1000}
    load_ms = 2000
    quality = 0.5
    [variants.heavy]
    engine = "profile"
    model = ""
    scheduler = ""
    steps = 10
    guidance = 1.0
    width = 8
    height = 8
    latency_ms = {1 = 4000}
    load_ms = 20000
    quality = 0.9
    """,
    "two",
)


@pytest.mark.parametrize(
    ("changed", "since_ms", "reported"),
    [
        (CALM, 4999, ""),
        (CALM, 5000, "the period is over"),
        (CALM._replace(workers=("w-1",)), 0, "w-2 left"),
        (CALM._replace(workers=("w-1", "w-2", "w-3")), 0, "w-3 joined"),
        (CALM._replace(workers=("w-1", "w-3")), 0, "w-2 left; w-3 joined"),
        (CALM._replace(pin=("p", "{}")), 0, "an operator ordered it"),
        (CALM._replace(backlog_ms=2001.0), 1000, "the backlog grew from 0.5 to 2.0 s a worker"),
        (CALM._replace(backlog_ms=2001.0), 999, ""),
        (CALM._replace(backlog_ms=2000.0), 1000, ""),
        (CALM._replace(backlog_ms=0.0), 1000, ""),
    ],
)
def test_a_plan_is_due_for_a_reason(changed: Signals, since_ms: int, reported: str) -> None:
    assert why_now(CALM, changed, since_ms, PERIOD_MS) == reported


def test_the_first_plan_is_due_at_once() -> None:
    assert why_now(None, CALM, 0, PERIOD_MS) == "the first plan"


def drafted(**values: object) -> PlanProposal:
    given: dict[str, object] = {"routes": LIGHT, "batch": {}, "reason": "", "expected": PROMISED}
    return PlanProposal(**(given | {"allocation": {"w-1": "light", "w-2": "light"}} | values))  # type: ignore[arg-type]


def in_force(**values: object) -> Plan:
    return publish(drafted(**values), None, "p", NOW_MS)


def seen() -> Observation:
    workers = tuple(a_worker(name, "light", allocated="light") for name in ("w-1", "w-2"))
    return Observation(now_ms=NOW_MS, demand_rps=1.0, workers=workers)


MOVED = drafted(allocation={"w-1": "light", "w-2": "heavy"}, expected=dataclasses.replace(PROMISED, quality=0.6001))


def test_a_decision_that_moves_nobody_has_no_moves_to_pay_for() -> None:
    assert not only_moves(drafted(batch={"light": 2}), seen(), in_force())


def test_a_move_for_next_to_nothing_is_not_worth_it() -> None:
    assert not should_switch(change_of(in_force(), MOVED, seen(), a_catalog(), HOLD_S))


def test_what_must_change_changes_with_its_moves() -> None:
    before = in_force()
    assert only_moves(MOVED, seen(), before)
    assert not only_moves(dataclasses.replace(MOVED, strategy="reuse"), seen(), before)
    assert not only_moves(dataclasses.replace(MOVED, memory={"step": 1}), seen(), before)
    fewer = dataclasses.replace(seen(), workers=seen().workers[:1])
    assert not only_moves(MOVED, fewer, before), "a worker is lost"
    shedding = dataclasses.replace(MOVED, admission=Admission(shares={"batch": 0.5}, reason="", retry_after_ms=0))
    assert not only_moves(shedding, seen(), before), "others are let in"


def test_joint_plans_moves_for_as_long_as_a_plan_is_held_to_last() -> None:
    assert joint.PARAMETERS["hold_s"].default == HOLD_S


def a_change(**values: Any) -> Change:
    given: dict[str, Any] = {
        "before": Expectation(1.0, 0.6, 0.8),
        "after": Expectation(1.0, 0.7, 0.8),
        "away_s": 0.0,
        "workers": 10,
        "hold_s": 60.0,
        "span": 0.4,
    }
    return Change(**(given | values))


def a_plan_in_force(**values: Any) -> Plan:
    given: dict[str, Any] = {"version": 1, "policy": "p", "strategy": "models", "created_ms": 0, "reason": ""}
    return Plan(**(given | {"routes": (Route(levels={"light": 1.0}),)} | values))


def a_worker_at(worker_id: str, variant: str) -> WorkerView:
    return WorkerView(worker_id, variant, "ready", 0, 0.0)


def test_a_gain_that_moves_nobody_is_worth_it() -> None:
    assert should_switch(a_change())


def test_no_gain_is_not_worth_a_record() -> None:
    assert not should_switch(a_change(after=Expectation(1.0, 0.6, 0.8)))
    assert not should_switch(a_change(after=Expectation(1.0, 0.5, 0.8)))


def test_a_move_must_pay_while_the_plan_holds() -> None:
    moving = a_change(away_s=120.0)
    assert not should_switch(moving)
    assert should_switch(dataclasses.replace(moving, hold_s=3600.0))


def test_idle_workers_may_move_for_little() -> None:
    busy = a_change(away_s=120.0)
    assert not should_switch(busy)
    assert should_switch(dataclasses.replace(busy, before=Expectation(1.0, 0.6, 0.05)))


def test_requests_that_would_be_late_are_worth_a_loss_of_quality() -> None:
    overloaded = a_change(before=Expectation(0.7, 0.9, 1.4), after=Expectation(1.0, 0.5, 0.8), away_s=60.0)
    assert should_switch(overloaded)
    assert not should_switch(dataclasses.replace(overloaded, before=Expectation(0.99, 0.9, 1.01)))


def test_any_plan_is_better_than_none() -> None:
    assert should_switch(a_change(before=None, after=Expectation(0.1, 0.0, 3.0), away_s=1e6))


def test_unknown_quality_does_not_count() -> None:
    assert not should_switch(a_change(before=Expectation(1.0, None, 0.8)))
    assert not should_switch(a_change(span=0.0))
    assert should_switch(a_change(before=Expectation(0.5, None, 2.0)))


def test_an_expectation_scales_with_the_demand() -> None:
    expected = Expected(demand_rps=10.0, utilization=0.8, heavy_share=0.5, quality=0.7)
    assert expectation_at(expected, 10.0) == Expectation(1.0, 0.7, 0.8)
    in_time, quality, utilization = expectation_at(expected, 25.0)
    assert (in_time, utilization) == pytest.approx((0.5, 2.0))
    assert quality == 0.7
    assert expectation_at(expected, 0.0).utilization == 0.0


def test_an_expectation_of_no_demand_promises_nothing_above_none() -> None:
    none = Expected(demand_rps=0.0, utilization=0.5, heavy_share=0.0)
    assert expectation_at(none, 1.0).in_time == 0.0
    assert expectation_at(dataclasses.replace(none, utilization=0.0), 1.0).in_time == 1.0


def test_a_worker_that_moves_is_away_for_drain_and_load() -> None:
    workers = [a_worker_at("a", "light"), a_worker_at("b", "light"), a_worker_at("c", "")]
    assert away_s(workers, {"a": "light", "b": "heavy", "c": "heavy"}, CATALOG) == pytest.approx(1.0 + 20.0)
    assert away_s(workers, {}, CATALOG) == 0.0


def test_a_plan_is_broken_once_nobody_serves_a_level_it_uses() -> None:
    workers = [a_worker_at("a", "light"), a_worker_at("b", "heavy")]
    cascade = Cascade(level="light", next_level="heavy", discriminator="d", threshold=0.5)
    plan = a_plan_in_force(cascades=(cascade,), allocation={"a": "light", "b": "heavy"})
    assert not is_broken(plan, workers)
    assert is_broken(plan, workers[:1]), "the heavy worker is lost"
    assert not is_broken(dataclasses.replace(plan, cascades=()), workers[:1])


def test_a_change_is_reported_from_the_plan_in_force_and_the_draft() -> None:
    expected = Expected(demand_rps=1.0, utilization=0.5, heavy_share=0.0, quality=0.5)
    plan = a_plan_in_force(allocation={"a": "light"}, expected=expected)
    routes, better = (Route(levels={"heavy": 1.0}),), dataclasses.replace(expected, quality=0.9)
    proposal = PlanProposal(routes=routes, allocation={"a": "heavy"}, batch={}, reason="", expected=better)
    seen = Observation(now_ms=0, demand_rps=2.0, workers=(a_worker_at("a", "light"),))
    change = change_of(plan, proposal, seen, CATALOG, 60.0)
    assert change.before == Expectation(1.0, 0.5, 1.0)
    assert change.after == Expectation(1.0, 0.9, 1.0)
    assert (change.away_s, change.workers, change.hold_s) == (21.0, 1, 60.0)
    assert change.span == pytest.approx(0.4) == span_of(CATALOG)
    assert change_of(None, proposal, seen, CATALOG, 60.0).before is None


def test_moves_that_the_policy_has_weighed_are_judged_by_quality_alone() -> None:
    proposal = PlanProposal(routes=(Route(levels={"heavy": 1.0}),), allocation={"a": "heavy"}, batch={}, reason="")
    seen = Observation(now_ms=0, demand_rps=2.0, workers=(a_worker_at("a", "light"),))
    weighed = dataclasses.replace(proposal, weighs_moves=True)
    assert change_of(None, proposal, seen, CATALOG, 60.0).risk == 5.0
    assert change_of(None, weighed, seen, CATALOG, 60.0).risk == 1.0
    moving = a_change(away_s=120.0)
    assert not should_switch(moving)
    assert should_switch(dataclasses.replace(moving, risk=1.0))


def test_a_draft_without_expectation_promises_that_nothing_is_late() -> None:
    proposal = PlanProposal(routes=(Route(levels={"heavy": 1.0}),), allocation={}, batch={}, reason="")
    seen = Observation(now_ms=0, demand_rps=2.0, workers=(a_worker_at("a", "light"),))
    assert change_of(None, proposal, seen, CATALOG, 60.0).after.in_time == 1.0

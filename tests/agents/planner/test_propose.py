"""Which plan follows the one in force: what fails changes nothing, and a move must pay."""

import dataclasses
import threading
import time
from collections.abc import Iterator

import pytest

from agents.planner.propose import Choice, Order, Solving
from planner.control import propose, replan
from planner.control.proposal import Draft
from planner.control.propose import Rules
from planner.observation.observation import Observation
from schemas.messages import Plan
from streams import metrics
from tests.builders import NOW_MS, a_catalog, a_plan, a_worker, an_observation
from tests.patience import PATIENCE_S


def counted(kind: str) -> float:
    return metrics.FALLBACKS.labels("planner", kind)._value.get()


def a_choice(limit_s: float = PATIENCE_S) -> Choice:
    return Choice(a_catalog(), Solving(limit_s))


def serving(**variants: str) -> Observation:
    workers = tuple(a_worker(name.replace("_", "-"), variant, allocated=variant) for name, variant in variants.items())
    return an_observation(workers=workers)


def in_force(seen: Observation) -> Plan:
    plan = a_choice().plan(Order("random-split"), seen, None)
    assert plan is not None
    return plan


def test_what_the_workers_cannot_paint_is_shed_by_the_plan_unless_the_setting_says_otherwise() -> None:
    busy = dataclasses.replace(serving(w_1="heavy"), demand_rps=50.0)
    plan = a_choice().plan(Order("clipper-heavy", {"batch": 1}), busy, None)
    assert plan is not None
    assert plan.admission is not None
    assert plan.admission.shares["standard"] == pytest.approx(0.1)
    calm = dataclasses.replace(busy, demand_rps=4.0)
    again = a_choice().plan(Order("clipper-heavy", {"batch": 1}), calm, plan)
    assert again is not None, "all are let in again at once"
    assert again.admission is None
    patient = Choice(a_catalog(), Solving(PATIENCE_S), Rules(sheds=False))
    kept = patient.plan(Order("clipper-heavy", {"batch": 1}), busy, None)
    assert kept is not None
    assert kept.admission is None


def test_the_share_to_explore_is_spread_over_the_served_levels_once() -> None:
    seen, curious = serving(w_1="light", w_2="heavy"), Choice(a_catalog(), Solving(PATIENCE_S), Rules(explore=0.1))
    plan = curious.plan(Order("diffserve-static"), seen, None)
    assert plan is not None
    assert plan.routes[0].levels == pytest.approx({"light": 0.95, "heavy": 0.05})
    assert curious.plan(Order("diffserve-static"), seen, plan) is None, "the same decision is not published again"
    back = curious.plan(Order("random-split", back_to=plan), seen, a_plan())
    assert back is not None
    assert back.routes == plan.routes, "an earlier plan's routes are explored already"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> Draft:
        raise ZeroDivisionError("in the solver")

    monkeypatch.setattr(propose, "named", lambda _: raises)


@pytest.mark.usefixtures("broken")
def test_a_policy_that_fails_leaves_the_plan_in_force_and_is_counted() -> None:
    seen, before = serving(w_1="light", w_2="heavy"), counted("policy")
    assert a_choice().plan(Order("p"), seen, a_plan()) is None
    assert counted("policy") == before + 1


def test_where_others_obey_a_plan_that_was_refused_here_even_the_same_decision_is_published_above_it() -> None:
    seen, before = serving(w_1="light", w_2="heavy"), in_force(serving(w_1="light", w_2="heavy"))
    assert a_choice().plan(Order("random-split"), seen, before, before.version) is None
    plan = a_choice().plan(Order("random-split"), seen, before, newest=9)
    assert plan is not None
    assert plan == dataclasses.replace(before, version=10, reason=plan.reason, expected=plan.expected)
    anew = a_choice().plan(Order("random-split"), seen, None, newest=9)
    assert anew is not None
    assert anew.version == 10


@pytest.mark.usefixtures("broken")
def test_a_failure_is_logged_once_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    choice, seen = a_choice(), serving(w_1="light", w_2="heavy")
    for _ in range(5):
        choice.plan(Order("p"), seen, a_plan())
    assert sum("ZeroDivisionError" in record.message for record in caplog.records) == 1
    choice.plan(Order("another"), seen, a_plan())
    assert len(caplog.records) == 2


def test_a_draft_that_contradicts_the_catalog_is_not_published(monkeypatch: pytest.MonkeyPatch) -> None:
    real = propose.named

    def contradicts(name: str):  # type: ignore[no-untyped-def]
        return lambda *arguments: dataclasses.replace(real(name)(*arguments), batch={"lihgt": 1})

    monkeypatch.setattr(propose, "named", contradicts)
    assert a_choice().plan(Order("random-split"), serving(w_1="light"), None) is None


@pytest.mark.usefixtures("broken")
def test_when_a_policy_fails_as_workers_vanish_the_plan_goes_on_with_those_left() -> None:
    plan = a_choice().plan(Order("p"), serving(w_1="light"), a_plan(version=7))
    assert plan is not None
    assert (plan.version, plan.policy, plan.allocation, plan.cascades) == (8, "test", {"w-1": "light"}, ())
    assert "w-2 gone" in plan.reason
    assert "ZeroDivisionError: in the solver" in plan.reason
    above = a_choice().plan(Order("p"), serving(w_1="light"), a_plan(version=7), newest=9)
    assert above is not None
    assert above.version == 10


@pytest.mark.usefixtures("broken")
def test_without_a_plan_before_a_failing_policy_makes_none() -> None:
    assert a_choice().plan(Order("p"), serving(w_1="light"), None) is None


@pytest.fixture
def never_ending(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    done = threading.Event()

    def waits(*_: object) -> Draft:
        done.wait(PATIENCE_S)
        raise ZeroDivisionError

    monkeypatch.setattr(propose, "named", lambda _: waits)
    yield done
    done.set()


@pytest.mark.usefixtures("never_ending")
def test_a_policy_that_does_not_end_is_left_alone_and_no_second_one_is_begun() -> None:
    choice, seen = a_choice(limit_s=0.05), serving(w_1="light")
    threads, late = threading.active_count(), counted("policy-late")
    begun = time.monotonic()
    plans = [choice.plan(Order("p"), seen, a_plan()) for _ in range(3)]
    assert time.monotonic() - begun < PATIENCE_S
    assert [plan.allocation if plan else None for plan in plans] == [{"w-1": "light"}] * 3
    assert threading.active_count() == threads + 1
    assert counted("policy-late") == late + 3


def test_a_move_that_does_not_pay_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = serving(w_1="light", w_2="heavy")
    before = in_force(seen)
    asked: list[float] = []
    monkeypatch.setattr(replan, "worth", lambda change: bool(asked.append(change.away_s)))
    order, skipped = Order("random-split", {"heavy_share": 1.0}), counted("change-not-worth")
    assert a_choice().plan(order, seen, before) is None
    assert asked == [pytest.approx(0.07)], "20 ms to drain light and 50 to load"
    assert counted("change-not-worth") == skipped + 1


@pytest.mark.parametrize("why", ["another policy", "a worker lost", "a worker joined", "nobody moves"])
def test_nobody_asks_what_a_change_costs_that_must_be(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    seen = serving(w_1="light", w_2="heavy")
    before = in_force(seen)
    monkeypatch.setattr(replan, "worth", lambda _: False)
    order = Order("random-split", {"heavy_share": 1.0})
    if why == "another policy":
        order = Order("clipper-heavy")
    elif why == "a worker lost":
        seen = serving(w_1="light")
    elif why == "a worker joined":
        seen = serving(w_1="light", w_2="heavy", w_3="")
    else:
        order = Order("random-split", {"heavy_share": 0.4})
    assert a_choice().plan(order, seen, before) is not None


def test_a_change_that_pays_is_made() -> None:
    seen = dataclasses.replace(serving(w_1="light", w_2="heavy"), demand_rps=30.0)
    before = in_force(seen)
    after = a_choice().plan(Order("random-split", {"heavy_share": 0.0}), seen, before)
    assert after is not None
    assert set(after.allocation.values()) == {"light"}, "one heavy worker cannot do half of 30 a second"
    assert after.created_ms == NOW_MS

"""When a plan in force stays although a policy drafted another."""

import dataclasses

from planner.control.plans import publish
from planner.control.proposal import Draft
from planner.control.staying import only_moves, stays
from planner.observation.observation import Observation
from planner.policies import joint
from planner.solvers.joint.problem import HOLD_S
from schemas.messages import Admission, Expected, Plan, Route
from tests.builders import NOW_MS, a_catalog, a_worker

LIGHT, HEAVY = (Route(levels={"light": 1.0}),), (Route(levels={"heavy": 1.0}),)
PROMISED = Expected(demand_rps=1.0, utilization=0.5, heavy_share=0.0, quality=0.6)


def drafted(**values: object) -> Draft:
    given: dict[str, object] = {"routes": LIGHT, "batch": {}, "reason": "", "expected": PROMISED}
    return Draft(**(given | {"allocation": {"w-1": "light", "w-2": "light"}} | values))  # type: ignore[arg-type]


def in_force(**values: object) -> Plan:
    return publish(drafted(**values), None, "p", NOW_MS)


def seen() -> Observation:
    workers = tuple(a_worker(name, "light", allocated="light") for name in ("w-1", "w-2"))
    return Observation(now_ms=NOW_MS, demand_rps=1.0, workers=workers)


MOVED = drafted(allocation={"w-1": "light", "w-2": "heavy"}, expected=dataclasses.replace(PROMISED, quality=0.6001))


def test_the_same_decision_stays() -> None:
    assert stays(drafted(reason="another"), "p", seen(), in_force(), a_catalog())


def test_a_decision_that_moves_nobody_is_obeyed_at_once() -> None:
    assert not stays(drafted(batch={"light": 2}), "p", seen(), in_force(), a_catalog())


def test_a_move_for_next_to_nothing_is_not_made() -> None:
    assert stays(MOVED, "p", seen(), in_force(), a_catalog())
    assert not stays(MOVED, "other", seen(), in_force(), a_catalog()), "another policy was asked for"


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

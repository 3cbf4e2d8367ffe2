"""Jobs of a variant that has lost its last worker."""

import math
from typing import Any

import pytest

from planner.observation.workers import ReceivedHeartbeat
from planner.serving.decisions import ENDED, Ignored, Rejection
from planner.serving.routing.escalation import Keep
from planner.serving.routing.placement import CHEAPER, Placement
from planner.serving.routing.reroute import WAITS_FOR_WORKER, OrphanRouting, RemainsInQueue, orphaned_variants
from planner.serving.routing.routing import BacklogLimits, RoutingLogic
from schemas.messages import Admission, GenerateOptions, Plan, Route, Status
from tests.builders import NOW_MS, a_catalog, a_classified, a_heartbeat, a_plan, a_request, a_worker
from tests.planner.serving.workers import FixedLoads

VARIANTS = ("light", "heavy")
WAITS_MS = {"light": 40.0, "heavy": math.inf}


def all_light(**changes: Any) -> Plan:
    return a_plan(**({"allocation": {"w-1": "light"}, "cascades": ()} | changes))


def test_a_variant_is_orphaned_when_the_plan_has_nobody_for_it_and_nobody_serves_it() -> None:
    assert orphaned_variants(VARIANTS, all_light(), [a_worker("w-1", "light")]) == ["heavy"]
    assert orphaned_variants(VARIANTS, a_plan(), [a_worker("w-1", "light"), a_worker("w-2", "heavy")]) == []


@pytest.mark.parametrize(
    ("why", "plan", "workers"),
    [
        ("the plan counts on one who is gone", a_plan(), [a_worker("w-1", "light")]),
        ("nobody serves anything", all_light(), [a_worker("w-1", "light", state="loading")]),
        ("nobody is there", all_light(allocation={}), []),
        ("one still drains it", all_light(), [a_worker("w-1", "light"), a_worker("w-2", "heavy", state="draining")]),
        (
            "one is on its way",
            a_plan(allocation={"w-1": "light", "w-2": "heavy"}),
            [a_worker("w-1", "light"), a_worker("w-2", "light", allocated="heavy")],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_none_is_orphaned_as_long_as_somebody_may_come(why: str, plan: Plan, workers: list[Any]) -> None:
    assert orphaned_variants(VARIANTS, plan, workers) == [], why


Answer = Placement | Rejection | Keep | Ignored | RemainsInQueue
MOST_MS = 60_000.0
NOWHERE = {"light": math.inf, "heavy": math.inf}


def a_routing() -> OrphanRouting:
    return OrphanRouting(a_catalog(), RoutingLogic(a_catalog(), BacklogLimits(MOST_MS, MOST_MS)), 3000)


def rerouted(
    plan: Plan, waits_ms: dict[str, float] = WAITS_MS, ended: bool = False, by: OrphanRouting | None = None, **job: Any
) -> Answer:
    draft, waited_ms = job.pop("draft", False), job.pop("waited_ms", 0.0)
    classified = a_classified(a_request(**job))
    loads = FixedLoads(waits_ms, workers=sum(map(math.isfinite, waits_ms.values())))
    return (by or a_routing()).reroute(
        classified, "heavy", plan, loads, NOW_MS, has_ended=ended, has_draft=draft, waited_ms=waited_ms
    )


def test_orphaned_are_the_variants_of_the_catalog_that_lost_their_worker_by_the_plan_in_force() -> None:
    beats = {
        "w-1": ReceivedHeartbeat(a_heartbeat(), NOW_MS),
        "w-2": ReceivedHeartbeat(a_heartbeat(worker_id="w-2", variant="heavy"), NOW_MS),
    }
    routing = a_routing()
    assert routing.orphaned(None, beats, NOW_MS) == []
    assert routing.orphaned(all_light(), beats, NOW_MS) == []
    beats["w-1"] = ReceivedHeartbeat(a_heartbeat(), NOW_MS + 3001)
    assert routing.orphaned(all_light(), beats, NOW_MS + 3001) == ["heavy"]


def test_a_job_goes_where_the_plan_in_force_draws_its_request() -> None:
    placed = rerouted(all_light())
    assert isinstance(placed, Placement)
    assert (placed.level, placed.probability, placed.fallback) == ("light", 1.0, "")


def test_one_that_the_plan_still_draws_for_the_lost_variant_goes_to_a_cheaper_one() -> None:
    placed = rerouted(all_light(routes=(Route(levels={"heavy": 1.0}),)))
    assert isinstance(placed, Placement)
    assert (placed.level, placed.probability, placed.fallback) == ("light", 0.0, CHEAPER)


def test_what_was_admitted_is_neither_shed_nor_rejected_for_the_backlog() -> None:
    nobody = all_light(
        admission=Admission(
            shares=dict.fromkeys(("interactive", "standard", "batch"), 0.0), reason="full", retry_after_ms=1
        )
    )
    assert isinstance(rerouted(nobody, {"light": 1e9, "heavy": math.inf}), Placement)


def test_one_that_no_level_serves_in_time_expires() -> None:
    rejection = rerouted(all_light(), deadline_ms=NOW_MS + 30)
    assert isinstance(rejection, Rejection)
    assert rejection.status is Status.EXPIRED


@pytest.mark.parametrize("deadline_ms", [None, NOW_MS + 5])
def test_one_that_names_the_lost_model_waits_for_it(deadline_ms: int | None) -> None:
    assert rerouted(all_light(), options=GenerateOptions(model="heavy"), deadline_ms=deadline_ms) is WAITS_FOR_WORKER


def test_one_that_names_the_lost_model_is_answered_by_the_nearest_level_once_it_has_waited_for_too_long() -> None:
    named = GenerateOptions(model="heavy")
    assert rerouted(all_light(), options=named, waited_ms=MOST_MS) is WAITS_FOR_WORKER
    placed = rerouted(all_light(), options=named, waited_ms=MOST_MS + 1)
    assert isinstance(placed, Placement)
    assert (placed.level, placed.overridden, placed.fallback) == ("light", ("model: heavy -> light",), CHEAPER)
    assert rerouted(all_light(), NOWHERE, options=named, waited_ms=2 * MOST_MS) is WAITS_FOR_WORKER
    assert rerouted(all_light(), options=named, waited_ms=2 * MOST_MS, tier="batch") is WAITS_FOR_WORKER
    turned = rerouted(all_light(), options=GenerateOptions(model="heavy", strict=True), waited_ms=MOST_MS + 1)
    assert isinstance(turned, Rejection)
    assert (turned.status, turned.code, turned.retry_after_ms) == (Status.REJECTED, "overloaded", 60_000)
    assert "no worker serves heavy; it waited 60 s" in turned.reason


@pytest.mark.parametrize("before", ["no worker", "no router"])
def test_the_time_without_any_worker_is_no_wait_for_a_named_level(before: str) -> None:
    """Nor is the time before the router looked: a machine that was off starts both again."""
    beats, routing, named = dict[str, ReceivedHeartbeat](), a_routing(), GenerateOptions(model="heavy")
    back_ms = NOW_MS - round(MOST_MS)
    if before == "no worker":
        routing.orphaned(all_light(), {"w-1": ReceivedHeartbeat(a_heartbeat(), back_ms - 9999)}, back_ms - 9999)
        routing.orphaned(all_light(), beats, back_ms)
    beats["w-1"] = ReceivedHeartbeat(a_heartbeat(), back_ms)
    routing.orphaned(all_light(), beats, back_ms)
    assert rerouted(all_light(), by=routing, options=named, waited_ms=10 * MOST_MS) is WAITS_FOR_WORKER
    later = a_routing()
    beats["w-1"] = ReceivedHeartbeat(a_heartbeat(), back_ms - 1)
    later.orphaned(all_light(), beats, back_ms - 1)
    assert isinstance(rerouted(all_light(), by=later, options=named, waited_ms=10 * MOST_MS), Placement)


def test_a_strict_one_that_names_the_lost_model_and_asks_for_more_does_not_wait() -> None:
    rejection = rerouted(all_light(), options=GenerateOptions(model="heavy", steps=9, strict=True))
    assert isinstance(rejection, Rejection)
    assert rejection.code == "unhonoured"


def test_one_that_was_to_replace_a_draft_leaves_it_as_the_answer_unless_it_has_one() -> None:
    assert rerouted(all_light(), draft=True) == Keep(None, "no worker serves heavy any more; the draft was kept")
    assert rerouted(all_light(), draft=True, ended=True) is ENDED

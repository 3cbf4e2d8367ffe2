"""What the router decides on a request, in the order of its checks."""

import dataclasses
import math
from typing import Any

import pytest

from planner.catalog.options import resolve_options
from planner.serving.decisions import Ignored, Rejection
from planner.serving.routing.cascades import cascade_of
from planner.serving.routing.placement import CHEAPER, DEARER, Placement
from planner.serving.routing.routing import NO_LIMITS, BacklogLimits, RoutingLogic, backlog_limits, with_room
from schemas.errors import InvalidRequest, Unknown
from schemas.messages import TIERS, GenerateOptions, Route, ScalePlan, Status
from tests.builders import (
    NOW_MS,
    a_catalog,
    a_classified,
    a_discriminator,
    a_plan,
    a_request,
    a_reuse_plan,
    a_variant,
)
from tests.planner.serving.workers import FixedLoads

CATALOG = a_catalog(
    variants={
        "light": a_variant(name="light", latency_ms={1: 20.0}, quality=0.8),
        "heavy": a_variant(name="heavy", latency_ms={1: 400.0}, quality=0.9, honours=("steps",), steps=10),
    }
)
BOTH = {"a": "light", "b": "heavy"}
IDLE = {"light": 0.0, "heavy": 0.0}


def decided(
    wait_ms: dict[str, float] = IDLE, to: str = "heavy", allocation: dict[str, str] = BOTH, most_ms: float = 1000,
    slow: dict[str, float] | None = None, **asked: Any,
) -> Placement | Rejection | Ignored:  # fmt: skip
    plan = a_plan(routes=(Route(levels={to: 1.0}),), allocation=allocation)
    logic = RoutingLogic(CATALOG, BacklogLimits(most_ms, most_ms))
    return logic.route(a_classified(a_request(**asked)), plan, FixedLoads(wait_ms, slow=slow or {}), NOW_MS)


def from_zero(deadline_ms: int | None, warm: int = 0, scales: bool = True, **asked: Any) -> Placement | Rejection:
    scale = ScalePlan(targets={"heavy": 1}, warm=warm) if scales else None
    plan = a_plan(routes=(Route(levels={"heavy": 1.0}),), allocation={}, scale=scale)
    logic = RoutingLogic(CATALOG, NO_LIMITS, start_ms=3000)
    nobody = FixedLoads({"light": math.inf, "heavy": math.inf})
    found = logic.route(a_classified(a_request(deadline_ms=deadline_ms, **asked)), plan, nobody, NOW_MS)
    assert not isinstance(found, Ignored)
    return found


def test_who_asks_a_level_at_zero_waits_for_its_worker_or_is_told_when_to_ask_again() -> None:
    assert isinstance(from_zero(None), Placement)
    assert isinstance(from_zero(NOW_MS + 3450), Placement), "3 s to start, 50 ms to load, 400 ms to run"
    late = from_zero(NOW_MS + 3449)
    assert isinstance(late, Rejection)
    assert (late.status, late.code, late.retry_after_ms) == (Status.REJECTED, "starting", 3050)
    assert isinstance(from_zero(NOW_MS + 450, warm=1), Placement), "one of the pool has started"
    assert isinstance(from_zero(NOW_MS + 100, scales=False), Placement), "nobody starts one: it waits for its deadline"
    named = from_zero(NOW_MS + 100, options=GenerateOptions(model="light"))
    assert isinstance(named, Rejection)
    assert named.reason.startswith("light has no live worker")


def on(level: str, probability: float, fallback: str = "") -> Placement:
    variant = CATALOG.level(level)
    return Placement(
        level, level, resolve_options(GenerateOptions(), variant), variant.latency_ms[1], probability, fallback
    )


def test_the_plans_draw_places_a_request_without_wishes() -> None:
    assert decided() == on("heavy", 1.0)


@pytest.mark.parametrize(("quality", "level"), [("low", "light"), ("medium", "light"), ("high", "heavy")])
def test_quality_leads_past_the_plan(quality: str, level: str) -> None:
    for drawn in ("light", "heavy"):
        placed = decided(to=drawn, quality=quality)
        assert isinstance(placed, Placement)
        assert placed.level == level


def test_a_quality_whose_level_has_no_worker_in_the_plan_is_served_by_the_nearest_one_which_it_says() -> None:
    unserved = {"light": 0, "heavy": math.inf}
    placed = decided(to="light", allocation={"a": "light"}, quality="high", wait_ms=unserved)
    assert isinstance(placed, Placement)
    assert (placed.level, placed.overridden) == ("light", ("quality: high -> light",))
    strict = GenerateOptions(strict=True)
    placed = decided(to="light", allocation={"a": "light"}, quality="high", wait_ms=unserved, options=strict)
    assert isinstance(placed, Placement)
    assert (placed.level, placed.overridden) == ("heavy", ()), "it waits for a worker of it"


def test_a_named_model_is_waited_for_though_nobody_serves_it() -> None:
    options = GenerateOptions(model="heavy")
    waits = {"light": 0.0, "heavy": math.inf}
    placed = decided(to="light", wait_ms=waits, options=options, deadline_ms=NOW_MS + 1000)
    assert isinstance(placed, Placement)
    assert placed.level == "heavy"


def test_where_nobody_serves_a_level_or_a_cheaper_one_a_dearer_one_stands_in() -> None:
    unserved = {"light": math.inf, "heavy": 300.0}
    assert decided(to="light", wait_ms=unserved) == on("heavy", 0.0, DEARER)
    waiting = on("light", 1.0)
    assert decided(to="light", wait_ms=unserved, most_ms=200) == waiting, "it has no room"
    assert decided(to="light", wait_ms=unserved, deadline_ms=NOW_MS + 600) == waiting, "it has no time"
    assert decided(to="light", wait_ms={"light": math.inf, "heavy": math.inf}) == waiting
    assert decided(to="heavy", wait_ms={"light": math.inf, "heavy": 1500.0}, quality="low") == on("light", 0.0)


def test_no_fallback_leads_to_a_level_whose_last_workers_the_plan_sends_away() -> None:
    leaving = {"light": 0.0, "heavy": 0.0}
    to_heavy, to_light = {"a": "heavy"}, {"a": "light"}
    assert decided(to="light", allocation=to_light, wait_ms=leaving | {"light": math.inf}) == on("light", 1.0)
    waiting = leaving | {"heavy": math.inf}
    assert decided(to="heavy", allocation=to_heavy, wait_ms=waiting) == on("heavy", 1.0)
    turned = decided(to="heavy", allocation=to_heavy, wait_ms=leaving | {"heavy": 1500.0})
    assert isinstance(turned, Rejection)
    assert decided(to="heavy", allocation={}, wait_ms=waiting) == on("light", 0.0, CHEAPER), "it gives none to anybody"


def test_a_request_that_only_a_dearer_level_ends_in_time_goes_there() -> None:
    busy = {"light": 600.0, "heavy": 0.0}
    assert decided(to="light", wait_ms=busy, deadline_ms=NOW_MS + 500) == on("heavy", 0.0, DEARER)
    assert decided(to="light", wait_ms=busy, deadline_ms=NOW_MS + 700) == on("light", 1.0), "in time as it is"
    turned = decided(to="light", wait_ms=busy | {"heavy": 200.0}, deadline_ms=NOW_MS + 500)
    assert isinstance(turned, Rejection)
    assert turned.status is Status.EXPIRED
    insisting = decided(to="light", wait_ms=busy, deadline_ms=NOW_MS + 500, quality="low")
    assert isinstance(insisting, Rejection), "it asked for this level"


def test_a_request_that_is_in_time_once_a_levels_workers_have_come_waits_for_them() -> None:
    """Two of four workers serve light, whose others come within 50 ms; nothing else is in time."""
    four = {"a": "light", "b": "light", "c": "light", "d": "light"}
    busy = {"light": 600.0, "heavy": math.inf}

    def placed(deadline_ms: float, serving: int) -> Placement | Rejection | Ignored:
        plan = a_plan(routes=(Route(levels={"light": 1.0}),), allocation=four)
        loads = FixedLoads(busy, by_variant={"light": serving})
        asked = a_classified(a_request(deadline_ms=int(NOW_MS + deadline_ms)))
        return RoutingLogic(CATALOG, NO_LIMITS).route(asked, plan, loads, NOW_MS)

    assert placed(346, serving=2) == on("light", 1.0), "50 ms, half of the other 550, 20 to run and 1 to judge"
    for late in (placed(345, serving=2), placed(346, serving=4)):
        assert isinstance(late, Rejection)
        assert late.status is Status.EXPIRED


def test_a_level_that_is_only_overloaded_hands_over_to_no_dearer_one() -> None:
    turned = decided(to="light", wait_ms={"light": 1500.0, "heavy": 0.0})
    assert isinstance(turned, Rejection)


def test_an_overloaded_level_hands_over_to_a_cheaper_one() -> None:
    assert decided(wait_ms={"light": 10, "heavy": 1500}) == on("light", 0.0, CHEAPER)


INSISTING: list[dict[str, Any]] = [
    {"quality": "high", "options": GenerateOptions(strict=True)},
    {"options": GenerateOptions(model="heavy", strict=True)},
    {"options": GenerateOptions(steps=4, strict=True)},
]


@pytest.mark.parametrize("asked", INSISTING)
def test_a_request_that_insists_is_rejected_under_overload_with_the_time_to_come_back(asked: dict[str, Any]) -> None:
    turned = decided(wait_ms={"light": 10, "heavy": 1500}, **asked)
    assert isinstance(turned, Rejection)
    assert (turned.status, turned.code, turned.retry_after_ms) == (Status.REJECTED, "overloaded", 500)


@pytest.mark.parametrize(
    ("asked", "overridden"),
    [
        ({"quality": "high"}, "quality: high -> light"),
        ({"options": GenerateOptions(model="heavy")}, "model: heavy -> light"),
        ({"options": GenerateOptions(steps=4)}, "steps: 4 -> 2"),
    ],
)
def test_a_request_that_does_not_insist_goes_to_the_nearest_level_with_room_which_it_says(
    asked: dict[str, Any], overridden: str
) -> None:
    placed = decided(wait_ms={"light": 10, "heavy": 1500}, **asked)
    assert isinstance(placed, Placement)
    assert (placed.level, placed.overridden, placed.fallback) == ("light", (overridden,), CHEAPER)
    named = decided(wait_ms={"light": 1500, "heavy": 10}, options=GenerateOptions(model="light"))
    assert isinstance(named, Placement)
    assert (named.level, named.overridden) == ("heavy", ("model: light -> heavy",))


def test_a_deadline_too_short_for_the_level_takes_the_cheaper_one_and_then_none() -> None:
    assert decided(deadline_ms=NOW_MS + 100) == on("light", 0.0, CHEAPER)
    turned = decided(deadline_ms=NOW_MS + 10)
    assert isinstance(turned, Rejection)
    assert (turned.status, turned.code) == (Status.EXPIRED, "deadline")


def test_a_level_that_is_in_time_by_its_profile_but_not_as_it_is_served_gives_way_to_a_cheaper_one() -> None:
    slow = {"heavy": 1.2}
    assert decided(slow=slow, deadline_ms=NOW_MS + 479) == on("light", 0.0, CHEAPER)
    served = decided(slow=slow, deadline_ms=NOW_MS + 480)
    assert served == on("heavy", 1.0), "the job carries its profiled time: workers add how slow they are"
    assert decided(slow={"heavy": 0.5}, deadline_ms=NOW_MS + 200) == on("heavy", 1.0), "quicker than profiled"


def test_a_request_that_no_level_can_serve_in_time_as_they_are_served_expires_at_once() -> None:
    late = decided(slow={"light": 1.5, "heavy": 1.2}, deadline_ms=NOW_MS + 29)
    assert isinstance(late, Rejection)
    assert (late.status, late.code) == (Status.EXPIRED, "deadline")
    assert decided(deadline_ms=NOW_MS + 29) == on("light", 0.0, CHEAPER)


def test_a_dearer_level_that_stands_in_is_asked_for_its_time_as_served() -> None:
    waits = {"light": math.inf, "heavy": 0.0}
    asked = decided(to="light", wait_ms=waits, slow={"heavy": 1.2}, deadline_ms=NOW_MS + 479)
    assert asked == on("light", 1.0), "heavy would be too late: it waits for a worker of its own level"
    assert decided(to="light", wait_ms=waits, deadline_ms=NOW_MS + 479) == on("heavy", 0.0, DEARER)


def test_how_slow_a_level_is_served_is_asked_anew_for_each_request() -> None:
    plan = a_plan(routes=(Route(levels={"heavy": 1.0}),), allocation=BOTH)
    logic, request = RoutingLogic(CATALOG, NO_LIMITS), a_classified(a_request(deadline_ms=NOW_MS + 450))
    levels = []
    for slowness in (1.0, 1.2, 1.0):
        placed = logic.route(request, plan, FixedLoads(IDLE, slow={"heavy": slowness}), NOW_MS)
        assert isinstance(placed, Placement)
        levels.append(placed.level)
    assert levels == ["heavy", "light", "heavy"]


def test_more_steps_than_the_deadline_allows_count() -> None:
    assert isinstance(decided(quality="high", deadline_ms=NOW_MS + 500), Placement)
    longer = decided(quality="high", deadline_ms=NOW_MS + 500, options=GenerateOptions(steps=50))
    assert isinstance(longer, Rejection)


def test_a_deadline_leaves_time_to_judge_the_image_where_the_plan_does() -> None:
    slow = a_catalog(discriminators={"look": a_discriminator(latency_ms=30.0)})  # light takes 20 ms, then look
    logic = RoutingLogic(slow, NO_LIMITS)
    for deadline_ms, expected in ((NOW_MS + 49, Rejection), (NOW_MS + 50, Placement)):
        request = a_classified(a_request(deadline_ms=deadline_ms))
        plan = a_plan(routes=(Route(levels={"light": 1.0}),), allocation=BOTH)
        assert isinstance(logic.route(request, plan, FixedLoads(IDLE), NOW_MS), expected)
        unjudged = dataclasses.replace(plan, cascades=())
        assert isinstance(logic.route(request, unjudged, FixedLoads(IDLE), NOW_MS), Placement)


@pytest.mark.parametrize("allocation", [BOTH, {"a": "light"}])
@pytest.mark.parametrize("to", ["light", "heavy"])
def test_whether_a_strict_request_is_valid_depends_on_the_catalog_alone(to: str, allocation: dict[str, str]) -> None:
    waits = {"light": 0.0, "heavy": 0.0 if "b" in allocation else math.inf}
    valid = decided(waits, to, allocation, options=GenerateOptions(steps=50, strict=True))
    assert isinstance(valid, Placement), "heavy honours steps, whatever the plan draws"
    assert (valid.level, valid.overridden) == ("heavy", ())
    assert isinstance(decided(waits, to, allocation, options=GenerateOptions(strict=True)), Placement)
    for options in (GenerateOptions(guidance=9.0, strict=True), GenerateOptions(model="light", steps=50, strict=True)):
        turned = decided(waits, to, allocation, options=options)
        assert isinstance(turned, Rejection)
        assert (turned.status, turned.code) == (Status.REJECTED, "unhonoured")


def test_options_go_to_a_level_that_honours_them_or_are_listed_where_none_has_a_worker() -> None:
    honoured = decided(to="light", options=GenerateOptions(steps=50))
    assert isinstance(honoured, Placement)
    assert (honoured.level, honoured.overridden, honoured.probability) == ("heavy", (), 0.0)
    waits = {"light": 0.0, "heavy": math.inf}
    listed = decided(waits, "light", {"a": "light"}, options=GenerateOptions(steps=50))
    assert isinstance(listed, Placement)
    assert (listed.level, listed.overridden) == ("light", (f"steps: 50 -> {CATALOG.level('light').steps}",))
    free = decided(to="light", options=GenerateOptions(steps=2))
    assert free == on("light", 1.0), "as light does in any case, drawn by the plan"


def test_a_quality_asks_among_the_levels_that_honour_the_options() -> None:
    low = decided(to="light", quality="low", options=GenerateOptions(steps=50, strict=True))
    assert isinstance(low, Placement)
    assert (low.level, low.overridden) == ("heavy", ())


def test_a_wait_within_the_limit_is_admitted_on_the_wanted_level() -> None:
    assert with_room("heavy", ["light"], {"heavy": 900, "light": 0}, 1000) == "heavy"


def test_over_the_limit_a_lower_level_takes_it_where_the_request_allows() -> None:
    assert with_room("heavy", ["light"], {"heavy": 1100, "light": 5}, 1000) == "light"


def test_over_the_limit_without_a_way_out_it_is_refused_with_the_time_until_there_is_room() -> None:
    refused = with_room("heavy", [], {"heavy": 2500.5}, 1000)
    assert isinstance(refused, Rejection)
    assert (refused.code, refused.retry_after_ms) == ("overloaded", 1501)
    assert "2.5 s of work wait before heavy; up to 1.0 s are admitted" in refused.reason


def test_an_unserved_level_waits_for_a_worker_rather_than_being_refused() -> None:
    assert with_room("heavy", [], {"heavy": math.inf}, 1000) == "heavy"
    assert with_room("heavy", ["light"], {"heavy": math.inf, "light": 0}, 1000) == "light"
    assert with_room("heavy", ["light"], {"heavy": math.inf, "light": math.inf}, 1000) == "heavy"


def test_interactive_requests_may_use_what_is_kept_from_the_others() -> None:
    limits = backlog_limits(10, 0.2)
    assert [limits.of(tier) for tier in TIERS] == [10_000, 8_000, 8_000]


def test_a_level_of_another_catalog_is_refused_by_name() -> None:
    with pytest.raises(Unknown, match="ligth"):
        decided(to="ligth")


@pytest.mark.parametrize(("hits", "run_ms"), [({}, 400.0), ({"heavy~k5": 0.5}, 300.0), ({"heavy~k5": 1.0}, 200.0)])
def test_a_reuse_level_is_predicted_to_hit_as_often_as_the_plan_says(hits: dict[str, float], run_ms: float) -> None:
    plan = a_plan(routes=(Route(levels={"heavy~k5": 1.0}),), allocation=BOTH, reuse=a_reuse_plan(hits=hits))
    placed = RoutingLogic(CATALOG, NO_LIMITS).route(a_classified(), plan, FixedLoads(IDLE), NOW_MS)
    assert isinstance(placed, Placement)
    assert (placed.level, placed.variant, placed.run_ms) == ("heavy~k5", "heavy", pytest.approx(run_ms))


def test_images_of_a_reuse_level_are_judged_as_their_variants() -> None:
    plan = a_plan(routes=(Route(levels={"light~k1": 1.0}),), allocation=BOTH)
    assert cascade_of(plan, "light~k1") == plan.cascades[0]
    assert cascade_of(plan, "heavy~k1") is None


@pytest.mark.parametrize("reuse", ["on", "OWN", "pool"])
def test_a_consent_that_nobody_knows_is_an_invalid_request(reuse: str) -> None:
    with pytest.raises(InvalidRequest, match="reuse must be one of , off, own"):
        decided(options=GenerateOptions(reuse=reuse))

"""A request's fate at the router, in the order of its wishes, the backlog, the deadline and its options."""

import dataclasses
import math
from typing import Any

import pytest

from planner.serving.placement import CHEAPER, DEARER, Place, TurnedAway, decide
from schemas.messages import PaintOptions, Route, Status
from tests.builders import NOW_MS, a_catalog, a_classified, a_discriminator, a_plan, a_request, a_variant

CATALOG = a_catalog(
    variants={
        "light": a_variant(name="light", latency_ms={1: 20.0}, quality=0.8),
        "heavy": a_variant(name="heavy", latency_ms={1: 400.0}, quality=0.9, honours=("steps",), steps=10),
    }
)
BOTH = {"a": "light", "b": "heavy"}
IDLE = {"light": 0.0, "heavy": 0.0}


def fate(
    wait_ms: dict[str, float] = IDLE, to: str = "heavy", allocation: dict[str, str] = BOTH, most_ms: float = 1000,
    **asked: Any,
) -> Place | TurnedAway:  # fmt: skip
    plan = a_plan(routes=(Route(levels={to: 1.0}),), allocation=allocation)
    return decide(plan, a_classified(a_request(**asked)), CATALOG, wait_ms, NOW_MS, most_ms)


def test_the_plans_draw_places_a_request_without_wishes() -> None:
    assert fate() == Place("heavy", 1.0, ())


@pytest.mark.parametrize(("quality", "level"), [("low", "light"), ("medium", "light"), ("high", "heavy")])
def test_quality_leads_past_the_plan(quality: str, level: str) -> None:
    for drawn in ("light", "heavy"):
        placed = fate(to=drawn, quality=quality)
        assert isinstance(placed, Place)
        assert placed.level == level


def test_a_quality_whose_level_has_no_worker_in_the_plan_is_served_as_the_plan_says() -> None:
    placed = fate(to="light", allocation={"a": "light"}, quality="high", wait_ms={"light": 0, "heavy": math.inf})
    assert isinstance(placed, Place)
    assert placed.level == "light"


def test_a_named_model_is_waited_for_though_nobody_serves_it() -> None:
    options = PaintOptions(model="heavy")
    waits = {"light": 0.0, "heavy": math.inf}
    placed = fate(to="light", wait_ms=waits, options=options, deadline_ms=NOW_MS + 1000)
    assert isinstance(placed, Place)
    assert placed.level == "heavy"


def test_where_nobody_serves_a_level_or_a_cheaper_one_a_dearer_one_stands_in() -> None:
    unserved = {"light": math.inf, "heavy": 300.0}
    assert fate(to="light", wait_ms=unserved) == Place("heavy", 0.0, (), DEARER)
    waiting = Place("light", 1.0, ())
    assert fate(to="light", wait_ms=unserved, most_ms=200) == waiting, "it has no room"
    assert fate(to="light", wait_ms=unserved, deadline_ms=NOW_MS + 600) == waiting, "it has no time"
    assert fate(to="light", wait_ms={"light": math.inf, "heavy": math.inf}) == waiting
    assert fate(to="heavy", wait_ms={"light": math.inf, "heavy": 1500.0}, quality="low") == Place("light", 0.0, ())


def test_a_level_that_is_only_overloaded_hands_over_to_no_dearer_one() -> None:
    turned = fate(to="light", wait_ms={"light": 1500.0, "heavy": 0.0})
    assert isinstance(turned, TurnedAway)


def test_an_overloaded_level_hands_over_to_a_cheaper_one() -> None:
    assert fate(wait_ms={"light": 10, "heavy": 1500}) == Place("light", 0.0, (), CHEAPER)


def test_a_request_that_insists_is_rejected_under_overload_with_the_time_to_come_back() -> None:
    turned = fate(wait_ms={"light": 10, "heavy": 1500}, quality="high")
    assert isinstance(turned, TurnedAway)
    assert (turned.status, turned.code, turned.retry_after_ms) == (Status.REJECTED, "overloaded", 500)


def test_a_deadline_too_short_for_the_level_takes_the_cheaper_one_and_then_none() -> None:
    assert fate(deadline_ms=NOW_MS + 100) == Place("light", 0.0, (), CHEAPER)
    turned = fate(deadline_ms=NOW_MS + 10)
    assert isinstance(turned, TurnedAway)
    assert (turned.status, turned.code) == (Status.EXPIRED, "deadline")


def test_more_steps_than_the_deadline_allows_count() -> None:
    assert isinstance(fate(quality="high", deadline_ms=NOW_MS + 500), Place)
    longer = fate(quality="high", deadline_ms=NOW_MS + 500, options=PaintOptions(steps=50))
    assert isinstance(longer, TurnedAway)


def test_a_deadline_leaves_time_to_judge_the_picture_where_the_plan_does() -> None:
    slow = a_catalog(discriminators={"look": a_discriminator(latency_ms=30.0)})  # light takes 20 ms, then look
    for deadline_ms, expected in ((NOW_MS + 49, TurnedAway), (NOW_MS + 50, Place)):
        request = a_classified(a_request(deadline_ms=deadline_ms))
        plan = a_plan(routes=(Route(levels={"light": 1.0}),), allocation=BOTH)
        assert isinstance(decide(plan, request, slow, IDLE, NOW_MS, 1000), expected)
        unjudged = dataclasses.replace(plan, cascades=())
        assert isinstance(decide(unjudged, request, slow, IDLE, NOW_MS, 1000), Place)


def test_what_the_level_cannot_honour_is_listed_or_rejected_under_strict() -> None:
    placed = fate(to="light", options=PaintOptions(steps=50))
    assert isinstance(placed, Place)
    assert placed.overridden == (f"steps: 50 -> {CATALOG.level('light').steps}",)
    turned = fate(to="light", options=PaintOptions(steps=50, strict=True))
    assert isinstance(turned, TurnedAway)
    assert (turned.status, turned.code) == (Status.REJECTED, "unhonoured")
    assert isinstance(fate(to="heavy", options=PaintOptions(steps=50, strict=True)), Place)

"""A request's fate at the router, in the order of its wishes, the backlog, the deadline and its options."""

import collections
import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.placement import (
    CHEAPER,
    DEARER,
    Admitted,
    Place,
    Refused,
    TurnedAway,
    admit,
    choose_level,
    decide,
    limit_ms,
)
from schemas.errors import InvalidPlan
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
MIXED = a_plan(routes=(Route(levels={"light": 0.7, "heavy": 0.3}),))
PASM = a_plan(
    routes=(
        Route(label="light", levels={"light": 1.0}),
        Route(label="heavy", levels={"light": 0.4, "heavy": 0.6}),
    )
)
HALVES = a_plan(
    routes=(
        Route(levels={"light": 1.0}, hardness_to=0.5),
        Route(levels={"heavy": 1.0}, hardness_from=0.5),
    )
)


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


@given(st.text(), st.integers(1, 10**6))
def test_a_request_keeps_its_level_across_plans_with_the_same_route(request_id: str, version: int) -> None:
    later = dataclasses.replace(MIXED, version=version, reason="other")
    assert choose_level(later, request_id, 0.5, {}) == choose_level(MIXED, request_id, 0.5, {})


def test_realised_shares_are_within_two_standard_deviations_of_the_route() -> None:
    n, share = 10_000, 0.3
    chosen = collections.Counter(choose_level(MIXED, f"r-{i}", 0.5, {}).level for i in range(n))
    assert abs(chosen["heavy"] - n * share) < 2 * math.sqrt(n * share * (1 - share))


def test_a_higher_share_moves_requests_only_one_way() -> None:
    more = a_plan(routes=(Route(levels={"light": 0.5, "heavy": 0.5}),))
    before = {i for i in range(2000) if choose_level(MIXED, f"r-{i}", 0.5, {}).level == "heavy"}
    after = {i for i in range(2000) if choose_level(more, f"r-{i}", 0.5, {}).level == "heavy"}
    assert before < after


def test_the_probability_of_what_was_drawn_is_told() -> None:
    told = {choose_level(MIXED, f"r-{i}", 0.5, {}) for i in range(100)}
    assert told == {("light", 0.7), ("heavy", 0.3)}


@pytest.mark.parametrize(("hardness", "level"), [(0.0, "light"), (0.499, "light"), (0.5, "heavy"), (1.0, "heavy")])
def test_an_interval_holds_its_lower_bound_and_the_last_one_holds_one(hardness: float, level: str) -> None:
    assert choose_level(HALVES, "r", hardness, {}) == (level, 1.0)


@given(st.floats(0, 1), st.text())
def test_every_hardness_has_a_level(hardness: float, request_id: str) -> None:
    assert choose_level(HALVES, request_id, hardness, {"models": "light"}).probability == 1


def test_the_class_of_the_plan_s_strategy_decides() -> None:
    assert choose_level(PASM, "r", 1.0, {"models": "light", "reuse": "heavy"}).level == "light"


def test_the_class_comes_before_the_hardness() -> None:
    plan = a_plan(routes=(Route(label="light", levels={"heavy": 1.0}), Route(levels={"light": 1.0})))
    assert choose_level(plan, "r", 0.0, {"models": "light"}).level == "heavy"
    assert choose_level(plan, "r", 0.0, {"models": "heavy"}).level == "light"


@pytest.mark.parametrize("hardness", [-0.1, 1.1, math.nan])
def test_no_matching_route_is_an_invalid_plan(hardness: float) -> None:
    with pytest.raises(InvalidPlan, match="no route for class 'other'"):
        choose_level(PASM, "r", 0.5, {"models": "other"})
    with pytest.raises(InvalidPlan, match="at hardness"):
        choose_level(HALVES, "r", hardness, {})


def test_a_level_with_probability_zero_is_never_drawn() -> None:
    plan = a_plan(routes=(Route(levels={"heavy": 0.0, "light": 1.0, "z": 0.0}),))
    assert {choose_level(plan, f"r-{i}", 0.5, {}).level for i in range(200)} == {"light"}


def test_a_wait_within_the_limit_is_admitted_on_the_wanted_level() -> None:
    assert admit("heavy", ["light"], {"heavy": 900, "light": 0}, 1000) == Admitted("heavy")


def test_over_the_limit_a_lower_level_takes_it_where_the_request_allows() -> None:
    assert admit("heavy", ["light"], {"heavy": 1100, "light": 5}, 1000) == Admitted("light")


def test_over_the_limit_without_a_way_out_it_is_refused_with_the_time_until_there_is_room() -> None:
    refused = admit("heavy", [], {"heavy": 2500.5}, 1000)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.retry_after_ms) == ("overloaded", 1501)
    assert "2.5 s of work wait before heavy; up to 1.0 s are admitted" in refused.reason


def test_an_unserved_level_waits_for_a_worker_rather_than_being_refused() -> None:
    assert admit("heavy", [], {"heavy": math.inf}, 1000) == Admitted("heavy")
    assert admit("heavy", ["light"], {"heavy": math.inf, "light": 0}, 1000) == Admitted("light")
    assert admit("heavy", ["light"], {"heavy": math.inf, "light": math.inf}, 1000) == Admitted("heavy")


def test_interactive_requests_may_use_what_is_kept_from_the_others() -> None:
    assert limit_ms(10, "interactive", 0.2) == 10_000
    assert limit_ms(10, "standard", 0.2) == 8_000

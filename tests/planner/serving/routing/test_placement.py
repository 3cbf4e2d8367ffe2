"""Which level a request goes to first by the plan's routes."""

import collections
import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.routing.placement import Choice, choose_level, only_choice
from schemas.errors import InvalidPlan
from schemas.messages import Route
from tests.builders import a_plan

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


def test_the_probability_of_what_was_drawn_is_reported() -> None:
    reported = {choose_level(MIXED, f"r-{i}", 0.5, {}) for i in range(100)}
    assert reported == {("light", 0.7), ("heavy", 0.3)}


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


def test_a_level_that_every_route_has_alone_is_the_only_choice() -> None:
    assert only_choice(a_plan(routes=(Route(levels={"heavy": 0.0, "light": 1.0}),))) == Choice("light", 1.0)
    assert only_choice(MIXED) is only_choice(PASM) is only_choice(HALVES) is None
    lower_half = a_plan(routes=(Route(levels={"light": 1.0}, hardness_to=0.5),))
    assert only_choice(lower_half) is None, "no route for the harder half"

"""Estimates of another plan from the past: right on average, and honest about what they cannot know."""

import math
import warnings
from typing import Any

import numpy as np
import pytest

from planner.analysis.off_policy import Past, as_it_went, ending, estimate, weight
from planner.serving.routing.placement import choose_level
from schemas.errors import InvalidPlan
from schemas.messages import Plan, Route
from tests.builders import a_cascade, a_plan

LATENCY_MS = {"light": 100.0, "heavy": 900.0}


def halves(share: float) -> Plan:
    """Heavy with this probability, no cascade."""
    return a_plan(routes=(Route(levels={"light": 1 - share, "heavy": share}),), cascades=())


def a_past(**changes: Any) -> Past:
    values: dict[str, Any] = {
        "hardness": 0.5, "classes": {"models": "light"}, "level": "light", "probability": 1.0, "confidence": 0.7,
        "last_level": "light", "first_ms": 100.0, "latency_ms": 100.0, "first_work_ms": 20.0, "work_ms": 20.0,
        "is_completed": True,
    }  # fmt: skip
    return Past(**(values | changes))


def painted_again(**changes: Any) -> Past:
    return a_past(**({"last_level": "heavy", "latency_ms": 1000.0, "work_ms": 220.0, "confidence": 0.2} | changes))


def history(plan: Plan, count: int) -> list[Past]:
    """Requests drawn by a plan without a cascade, each level with its own latency."""
    drawn = [choose_level(plan, f"r-{number}", 0.5, {}) for number in range(count)]
    return [
        a_past(
            level=level, last_level=level, probability=probability, first_ms=LATENCY_MS[level],
            latency_ms=LATENCY_MS[level], first_work_ms=LATENCY_MS[level], work_ms=LATENCY_MS[level], confidence=None,
        )
        for level, probability in drawn
    ]  # fmt: skip


def test_a_past_drawn_half_and_half_tells_what_nine_in_ten_heavy_would_have_been() -> None:
    found = estimate(history(halves(0.5), 4000), halves(0.9), slo_ms=500, seed=1)
    for name, truth in (("violations", 0.9), ("answered by heavy", 0.9), ("work_ms", 0.9 * 900 + 0.1 * 100)):
        interval = found.figures[name]
        assert interval.low <= truth <= interval.high, name
        assert interval.high - interval.low < 0.05 * max(1, truth)
    assert found.doubts == ()


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    dice = np.random.default_rng(0)
    past = history(halves(0.5), 20_000)
    tries = [
        estimate([past[i] for i in dice.integers(0, len(past), 150)], halves(0.8), 500, seed=number)
        for number in range(25)
    ]
    covered = sum(each.figures["violations"].low <= 0.8 <= each.figures["violations"].high for each in tries)
    assert covered >= 20


def test_the_plan_of_then_is_estimated_as_it_went() -> None:
    past = history(halves(0.5), 500)
    found = estimate(past, halves(0.5), 500, seed=1)
    went = as_it_went(past, 500, seed=1)
    assert {name: each.value for name, each in found.figures.items()} == {n: each.value for n, each in went.items()}
    assert (found.effective, found.never_drawn, found.unknown) == (500, 0, 0)


def test_effective_requests_are_fewer_the_farther_the_plan_is() -> None:
    past = history(halves(0.5), 1000)
    near, far = (estimate(past, halves(share), 500, seed=1).effective for share in (0.6, 0.95))
    assert far < near < 1000


def test_a_plan_that_goes_where_the_past_never_went_is_doubted() -> None:
    found = estimate(history(halves(0.0), 200), halves(0.4), 500, seed=1)
    assert found.never_drawn == pytest.approx(0.4)
    assert any("were never drawn in the past: raise planner.exploration_rate" in doubt for doubt in found.doubts)


def test_an_image_generated_again_then_and_kept_now_ends_with_its_draft() -> None:
    found = ending(painted_again(), a_plan(cascades=(a_cascade(threshold=0.1),)))
    assert found is not None
    assert (found.level, found.latency_ms, found.work_ms, found.is_escalated) == ("light", 100, 20, False)


def test_an_image_generated_again_then_and_now_ends_as_it_did() -> None:
    found = ending(painted_again(), a_plan())
    assert found is not None
    assert (found.level, found.latency_ms, found.work_ms, found.is_escalated) == ("heavy", 1000, 220, True)


def test_an_image_kept_then_and_generated_again_now_has_an_end_that_nobody_knows() -> None:
    assert ending(a_past(confidence=0.4), a_plan()) is None
    found = estimate([a_past(confidence=0.4)] * 30 + [a_past()] * 70, a_plan(), 500, seed=1)
    assert found.unknown == pytest.approx(0.3)
    assert any("generates again" in doubt for doubt in found.doubts)


def test_an_image_that_was_never_scored_has_no_known_end_under_a_cascade() -> None:
    assert ending(a_past(confidence=None), a_plan()) is None


def test_a_request_that_no_draw_decided_goes_the_same_way_under_any_plan() -> None:
    past = a_past(level="heavy", last_level="heavy", probability=0.0)
    assert weight(past, halves(0.0)) == 1.0


def test_one_that_ended_before_any_image_stays_a_violation() -> None:
    nothing = a_past(level="", last_level="", probability=0.0, confidence=None, is_completed=False)
    found = estimate([nothing, a_past()], halves(0.0), 500, seed=1)
    assert found.figures["violations"].value == 0.5
    assert found.undrawn == 1


def test_without_any_completed_request_there_is_no_latency_and_neither_crash_nor_warning() -> None:
    nothing = a_past(level="", last_level="", probability=0.0, confidence=None, is_completed=False)
    with warnings.catch_warnings(action="error"):
        found = estimate([nothing] * 3, halves(0.0), 500, seed=1)
    assert math.isnan(found.figures["latency_p95_s"].value)
    assert math.isnan(found.figures["latency_p95_s"].low)
    assert found.figures["violations"].value == 1.0


def test_no_past_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(InvalidPlan, match="read a longer time"):
        estimate([], halves(0.5), 500, seed=1)

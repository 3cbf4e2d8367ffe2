"""Kept or generated again."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.routing.escalation import (
    AS_REQUESTED,
    AS_STATED,
    STANDS_IN,
    Escalate,
    EscalationLogic,
    Keep,
    Score,
)
from schemas.messages import GenerateOptions, GenerateRequest, Plan
from tests.builders import NOW_MS, a_cascade, a_catalog, a_classified, a_plan, a_request, a_variant
from tests.planner.serving.workers import FixedLoads

CATALOG = a_catalog()
HEAVY_MS = 200.0  # of one image


def judged(
    confidence: float | None, threshold: float = 0.5, deadline_ms: int | None = None, wait_ms: float = 0,
    slowness: float = 1.0,
) -> Keep | Escalate:  # fmt: skip
    logic, request = EscalationLogic(CATALOG), a_request(deadline_ms=deadline_ms)
    asked = logic.examine(a_plan(cascades=(a_cascade(threshold=threshold),)), "light", a_classified(request))
    assert isinstance(asked, Score)
    loads = FixedLoads({"heavy": wait_ms}, slow={"heavy": slowness})
    return logic.decide(asked, a_classified(request), [(32, 32)], confidence, loads, NOW_MS)


@given(st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_an_image_is_kept_from_the_threshold_on(confidence: float, threshold: float) -> None:
    verdict = judged(confidence, threshold)
    assert isinstance(verdict, Keep) == (confidence >= threshold)
    assert verdict.threshold == threshold
    assert isinstance(verdict, Keep) or verdict.next_level == "heavy"


@given(st.floats(0, 1))
def test_threshold_zero_keeps_everything_and_one_nothing(confidence: float) -> None:
    assert isinstance(judged(confidence, 0.0), Keep)
    assert isinstance(judged(confidence, 1.0), Escalate)


def test_without_a_cascade_for_the_level_the_image_is_kept() -> None:
    assert EscalationLogic(CATALOG).examine(a_plan(), "heavy", a_classified()) == Keep(
        None, "kept, as no discriminator judges images of heavy under this plan"
    )


@pytest.mark.parametrize(("model", "reason"), [("light", AS_REQUESTED), ("heavy", STANDS_IN)])
def test_an_image_of_a_named_level_is_kept_and_one_of_another_says_that_it_stands_in(model: str, reason: str) -> None:
    logic, plan = EscalationLogic(CATALOG), a_plan(cascades=(a_cascade(),))
    request = a_request(options=GenerateOptions(model=model))
    assert logic.examine(plan, "light", a_classified(request)) == Keep(None, reason)


def test_an_image_is_kept_where_the_next_level_would_drop_an_option_that_this_one_honours() -> None:
    variants = {"light": a_variant(honours=("steps",)), "heavy": a_variant(name="heavy", honours=("guidance",))}
    logic, plan = EscalationLogic(a_catalog(variants=variants)), a_plan(cascades=(a_cascade(),))
    kept = logic.examine(plan, "light", a_classified(a_request(options=GenerateOptions(steps=9))))
    assert kept == Keep(None, AS_STATED)
    for dropped_already in (GenerateOptions(guidance=9.0), GenerateOptions(width=64), GenerateOptions(n=2)):
        assert isinstance(logic.examine(plan, "light", a_classified(a_request(options=dropped_already))), Score)


def test_an_image_of_medium_quality_that_is_not_judged_is_kept_as_one_of_low_which_it_says() -> None:
    judges, judges_none, said = a_plan(cascades=(a_cascade(),)), a_plan(cascades=()), ("quality: medium -> low",)
    logic, asked = EscalationLogic(CATALOG), a_request(quality="medium")

    def overridden(plan: Plan, level: str, request: GenerateRequest) -> tuple[str, ...]:
        kept = logic.examine(plan, level, a_classified(request))
        assert isinstance(kept, Keep)
        return kept.overridden

    assert overridden(judges_none, "light", asked) == said
    assert overridden(judges, "light", a_request(quality="medium", options=GenerateOptions(model="light"))) == said
    assert isinstance(logic.examine(judges, "light", a_classified(asked)), Score)
    assert overridden(judges, "heavy", asked) == (), "it was escalated, or stands in, which the router says"
    assert overridden(judges_none, "heavy", a_request(quality="medium", options=GenerateOptions(model="heavy"))) == ()
    for word in ("low", "high", "auto"):
        assert overridden(judges_none, "light", a_request(quality=word)) == ()
    alone = EscalationLogic(a_catalog(variants={"light": a_variant()}, cascades=(), class_cuts={}))
    assert alone.examine(judges_none, "light", a_classified(asked)) == Keep(
        None, "kept, as no discriminator judges images of light under this plan"
    )


def test_a_doubtful_image_is_kept_when_a_better_one_would_be_late_and_the_reason_says_so() -> None:
    assert isinstance(judged(0.1, deadline_ms=NOW_MS + 200), Escalate)
    verdict = judged(0.1, deadline_ms=NOW_MS + 199)
    assert isinstance(verdict, Keep)
    assert "no time left: heavy needs 200 ms, and 199 ms are left" in verdict.reason


def test_a_draft_is_kept_when_the_next_level_is_in_time_by_its_profile_but_not_as_it_is_served() -> None:
    verdict = judged(0.1, deadline_ms=NOW_MS + 239, slowness=1.2)
    assert isinstance(verdict, Keep)
    assert "no time left: heavy needs 240 ms, and 239 ms are left" in verdict.reason
    assert isinstance(judged(0.1, deadline_ms=NOW_MS + 240, slowness=1.2), Escalate)
    assert isinstance(judged(0.1, deadline_ms=NOW_MS + 160, slowness=0.8), Escalate), "quicker than profiled"


def test_nobody_serving_the_next_level_is_no_time_left_unless_there_is_no_deadline() -> None:
    late = judged(0.1, deadline_ms=NOW_MS + 500, wait_ms=math.inf)
    assert isinstance(late, Keep)
    assert late.reason.endswith("but no worker serves heavy, and 500 ms are left")
    assert isinstance(judged(0.1, wait_ms=math.inf), Escalate)


@pytest.mark.parametrize("confidence", [math.nan, None, math.inf])
def test_a_confidence_that_is_no_number_counts_as_zero_and_the_reason_says_so(confidence: float | None) -> None:
    verdict = judged(confidence)
    assert isinstance(verdict, Escalate)
    assert f"confidence {confidence} counts as 0" in verdict.reason
    assert isinstance(judged(confidence, threshold=0.0), Keep)

"""Writing: only images from noise that are good enough and may be shared enter, and no tenant fills the store."""

import math
from typing import Any

import pytest

from planner.reuse.eligibility import Asked, Consent, Refusal
from planner.reuse.indexing.writing import (
    Ended,
    NotWritten,
    ScoreFirst,
    Unwritten,
    Write,
    WriteRule,
    examine,
    judge,
    within_cap,
)
from planner.serving.admission.quotas import Quota
from schemas.messages import Status

CHECKED = WriteRule(discriminator="look", threshold=0.6)


def ended(**changes: Any) -> Ended:
    return Ended(**({"request_id": "r-1", "status": Status.COMPLETED, "asked": Asked(), "reuse_steps": (0,)} | changes))


def test_an_image_that_a_cascade_scored_above_the_threshold_enters() -> None:
    assert examine(ended(score=0.61, scored_by="look"), CHECKED) == Write(0.61)
    assert examine(ended(score=0.6, scored_by="look"), CHECKED) == NotWritten(Unwritten.POOR)


@pytest.mark.parametrize("status", [each for each in Status if each is not Status.COMPLETED])
def test_what_did_not_complete_does_not_enter(status: Status) -> None:
    assert examine(ended(status=status), CHECKED) == NotWritten(Unwritten.STATUS)


def test_nothing_that_began_from_a_stored_image_enters_again() -> None:
    assert examine(ended(reuse_steps=(10, 0), score=0.9, scored_by="look"), CHECKED) == NotWritten(Unwritten.DERIVED)


def test_who_opted_out_is_not_stored_and_the_reason_says_so() -> None:
    one = ended(asked=Asked(consent=Consent.OFF), score=0.9, scored_by="look")
    assert examine(one, CHECKED) == NotWritten(Unwritten.REFUSED, Refusal.OPTED_OUT)


def test_a_plan_without_a_check_stores_every_image() -> None:
    assert examine(ended(), WriteRule()) == Write(None)


def test_what_nobody_or_another_scored_is_scored_here_within_the_share() -> None:
    assert examine(ended(), CHECKED) == ScoreFirst("look")
    assert examine(ended(score=0.9, scored_by="real"), CHECKED) == ScoreFirst("look")
    none = WriteRule(discriminator="look", scored_share=0.0)
    assert examine(ended(), none) == NotWritten(Unwritten.UNSCORED)


def test_the_share_that_is_scored_is_the_same_each_time_and_about_as_large_as_asked() -> None:
    rule = WriteRule(discriminator="look", scored_share=0.3)
    decisions = [examine(ended(request_id=f"r-{n}"), rule) for n in range(1000)]
    assert decisions == [examine(ended(request_id=f"r-{n}"), rule) for n in range(1000)]
    assert 250 < sum(isinstance(each, ScoreFirst) for each in decisions) < 350


@pytest.mark.parametrize("score", [None, math.nan, math.inf])
def test_a_check_that_did_not_answer_lets_nothing_in(score: float | None) -> None:
    assert judge(score, CHECKED) == NotWritten(Unwritten.UNSCORED)


def test_a_tenant_that_writes_too_much_is_capped_until_time_has_passed() -> None:
    rule = WriteRule(quota=Quota(rate_rps=1, burst=2))
    bucket, capped = within_cap(None, rule, 0)
    bucket, capped = within_cap(bucket, rule, 0)
    assert capped is None
    bucket, capped = within_cap(bucket, rule, 0)
    assert capped == NotWritten(Unwritten.CAPPED)
    assert within_cap(bucket, rule, 1000)[1] is None
    assert within_cap(None, WriteRule(), 0)[1] is None

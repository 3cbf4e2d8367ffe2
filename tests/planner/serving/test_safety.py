"""What happens to images that show what they must not, as their tenants have it."""

import dataclasses
import math

from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from planner.serving.safety import Action, Checked, SafetyTerms, why_blocked
from schemas.messages import ImageGenerated, Outcome
from tests.builders import NOW_MS, an_image

TERMS = SafetyTerms(threshold=0.5, action=Action.BLUR, tenants={"studio": Action.FLAG, "school": Action.BLOCK})


def test_an_image_at_or_above_the_threshold_is_treated_as_its_tenant_has_it_and_others_are_left_alone() -> None:
    scores = [0.1, 0.5, 0.9]
    for tenant, action in (("studio", Action.FLAG), ("school", Action.BLOCK), ("others", Action.BLUR)):
        assert [each.action for each in TERMS.decide(scores, tenant)] == [None, action, action]
        assert [each.score for each in TERMS.decide(scores, tenant)] == scores


def test_a_score_that_is_no_number_counts_as_the_worst() -> None:
    assert TERMS.decide([math.nan, math.inf], "school") == [Checked(1.0, Action.BLOCK)] * 2


def test_a_blocked_request_is_told_how_many_images_and_the_worst_score() -> None:
    assert why_blocked(TERMS.decide([0.9, 0.2], "others"), 0.5) == ""
    why = why_blocked(TERMS.decide([0.6, 0.2, 0.75], "school"), 0.5)
    assert why == "the safety check blocked 2 of its 3 images: score 0.75, and 0.5 is the limit"
    assert why_blocked(TERMS.decide([0.5], "school"), 0.5).startswith("the safety check blocked its image: score 0.50")


def test_a_result_tells_the_worst_score_of_its_images_and_what_was_done_about_that() -> None:
    plain = an_image()
    assert (result_of(ended(plain)).unsafe, result_of(ended(plain)).safety) == (None, "")
    first = dataclasses.replace(plain.image, unsafe=0.25)
    worst = dataclasses.replace(plain.image, unsafe=0.75, safety="blur")
    told = result_of(ended(dataclasses.replace(plain, image=first, more=(worst, first))))
    assert (told.unsafe, told.safety) == (0.75, "blur")


def ended(image: ImageGenerated) -> Outcome:
    return completed(image, None, None, reason="", by="discriminator", policy="", now_ms=NOW_MS)

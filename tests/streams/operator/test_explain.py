import dataclasses
import json

import pytest

from planner.serving.routing.escalation import AS_REQUESTED
from schemas.errors import InvalidRecord
from schemas.messages import Made, PromisedQuality, Stage, StageReuse, Status
from streams.operator.explain import cost_in_words, how_begun, steps_of, why
from tests.replay.runs import a_result, a_step


def test_the_path_of_a_result_is_read_back_as_it_was_written() -> None:
    path = (a_step(), a_step(stage=1, level="heavy", confidence=None, threshold=None, image=None))
    assert steps_of(a_result(*path)) == path


def test_a_path_that_is_no_path_names_the_request() -> None:
    with pytest.raises(InvalidRecord, match="r-1"):
        steps_of(dataclasses.replace(a_result(), path='[{"stage": 0}]'))


@pytest.mark.parametrize(
    ("confidence", "threshold", "says"),
    [
        (0.82, 0.55, "kept: confidence 0.82 ≥ 0.55"),
        (0.55, 0.55, "kept: confidence 0.55 ≥ 0.55"),
        (0.5549, 0.55, "kept: confidence 0.555 ≥ 0.550"),
        (0.31, 0.55, "kept although confidence 0.31 < 0.55: there was no time or place for a better one"),
        (None, 0.55, "kept: not scored, though the threshold was 0.55"),
        (None, None, "kept, as no discriminator judges images of light under this plan"),
        (0.97, 0.998, "kept although confidence 0.970 < 0.998: there was no time or place for a better one"),
        (0.9999, 0.998, "kept: confidence 0.9999 ≥ 0.9980"),
        (1.0, 0.998, "kept: confidence 1.000 ≥ 0.998"),
    ],
)
def test_a_kept_image_is_reported_by_its_score(confidence: float | None, threshold: float | None, says: str) -> None:
    assert why(a_result(a_step(confidence=confidence, threshold=threshold))) == says


def test_what_is_promised_of_an_image_does_not_contradict_that_it_was_kept_without_a_look() -> None:
    promise = PromisedQuality(
        wrong_at_most=0.023, confidence=0.95, images=1251, date="2026-11-28", standard="all facts"
    )
    rests = "are wrong for prompts as hard (95 % confidence, measured on 1,251 images on 2026-11-28; right: all facts)"
    unseen = a_step(level="heavy", confidence=None, threshold=None, discriminator="", promise=promise)
    says = "kept, as no discriminator judges images of heavy under this plan; at most 2.3 % of heavy's images " + rests
    assert why(a_result(unseen)) == says
    kept = a_step(confidence=0.82, threshold=0.55, discriminator="d", promise=promise)
    assert why(a_result(kept)) == f"kept: confidence 0.82 ≥ 0.55; at most 2.3 % of light's images kept so {rests}"


def test_the_cost_of_a_request_is_said_by_stage_and_in_total() -> None:
    made = Made(variant="light", seed=7, steps=2, guidance=1, width=32, height=32, price_per_hour=3.6)
    light, heavy = a_step(made=made), a_step(made=made, stage=1, level="heavy", generate_ms=12_340_000)
    unit = " (in the currency of worker.price_per_hour)"
    assert cost_in_words(a_result(light)) == f"0.0000200{unit}"
    assert cost_in_words(a_result(light, heavy)) == f"12.34, of which light 0.0000200, heavy 12.34{unit}"
    assert cost_in_words(a_result(a_step())) == "", "its worker has no price"


def test_what_the_role_says_that_kept_an_image_is_not_contradicted() -> None:
    result = dataclasses.replace(a_result(a_step(confidence=None, threshold=None)), reason=AS_REQUESTED)
    assert why(result) == AS_REQUESTED


def test_an_image_below_its_threshold_is_reported_with_the_reason_of_the_role_that_kept_it() -> None:
    for reason in ("two images are enough", "confidence 0.31 < threshold 0.55, but two images are enough"):
        result = dataclasses.replace(a_result(a_step(confidence=0.31, threshold=0.55)), reason=reason)
        assert why(result) == "kept although confidence 0.31 < 0.55: two images are enough"


def test_an_escalation_tells_the_rejected_score() -> None:
    heavy = a_step(stage=1, level="heavy", confidence=None, threshold=None)
    assert why(a_result(a_step(confidence=0.31), heavy)) == (
        "escalated: light scored 0.31 < 0.55, generated again on heavy"
    )


def test_an_escalation_over_the_draft_tells_from_which_step() -> None:
    heavy = a_step(stage=1, level="heavy", confidence=None, threshold=None, refine_from_step=3)
    assert why(a_result(a_step(confidence=0.31), heavy)) == (
        "escalated: light scored 0.31 < 0.55, refined on heavy from step 3"
    )


def test_an_escalation_within_a_longer_cascade_tells_the_last_verdict_too() -> None:
    medium = a_step(stage=1, level="medium", confidence=0.9)
    assert why(a_result(a_step(confidence=0.31), medium)) == (
        "escalated: light scored 0.31 < 0.55, generated again on medium, kept: confidence 0.90 ≥ 0.55"
    )


@pytest.mark.parametrize(
    ("stage", "says"),
    [
        (a_step(), ""),
        (a_step(reuse=StageReuse(steps=8, miss="route")), ""),
        (a_step(reuse=StageReuse(steps=8, miss="floor")), "all 8 steps: floor"),
        (a_step(reuse=StageReuse(step=3, steps=8)), "from step 3 of 8, with a stored image"),
        (
            a_step(reuse=StageReuse(step=3, steps=8, similarity=0.97)),
            "from step 3 of 8, with a stored image of a similar prompt (cosine 0.970)",
        ),
        (a_step(refine_from_step=5), "from step 5, with the draft"),
        (a_step(refine_from_step=5, reuse=StageReuse(steps=8, miss="route")), "from step 5 of 8, with the draft"),
        (
            a_step(refine_from_step=5, reuse=StageReuse(steps=8, miss="ineligible/draft")),
            "from step 5 of 8, with the draft",
        ),
    ],
)
def test_a_stage_says_from_which_step_it_began_and_with_what(stage: Stage, says: str) -> None:
    assert how_begun(stage) == says


@pytest.mark.parametrize("status", [Status.REJECTED, Status.EXPIRED, Status.CANCELLED, Status.FAILED])
def test_what_was_not_generated_tells_the_reason_of_who_ended_it(status: Status) -> None:
    assert why(a_result(status=status, reason="because")) == f"{status.lower()}: because"


def test_a_path_that_an_older_release_wrote_can_still_be_told() -> None:
    result = a_result(a_step())
    (step,) = json.loads(result.path)
    old = {name: value for name, value in step.items() if name in ("stage", "level", "worker_id", "plan_version")}
    old |= {"queue_ms": 1, "paint_ms": 2, "batch": 1, "attempt": 1}
    assert steps_of(dataclasses.replace(result, path=json.dumps([old])))[0].level == "light"


@pytest.mark.parametrize("path", ["[" * 100_000, '[{"confidence": "high"}]', "[1]", "{}", ""])
def test_a_path_of_other_types_is_an_error_of_ours_too(path: str) -> None:
    with pytest.raises(InvalidRecord, match="not a list of stages"):
        steps_of(dataclasses.replace(a_result(), path=path))

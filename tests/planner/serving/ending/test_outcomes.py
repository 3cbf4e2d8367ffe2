"""How requests end."""

import dataclasses
import json
import math
from typing import Any

import pytest

from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed, cost_of, expired, failed, rejected, step_of
from schemas.avro import to_wire
from schemas.messages import CallTimes, LatentRef, Made, Outcome, Stage, StageReuse, Status
from tests.builders import NOW_MS, a_classified, a_job, a_request, an_image, an_image_ref, an_outcome

SAID = {"by": "test", "now_ms": NOW_MS + 1000}
DRAFT = step_of(an_image(), 0.2, 0.5)


def a_completed_one(confidence: float | None = 0.9) -> Outcome:
    heavy = a_job(level="heavy", variant="heavy", stage=1, path=(DRAFT,), plan_version=2, worker_id="w-2")
    image = an_image(heavy, worker_id="w-2", generated_ms=NOW_MS + 215, image=an_image_ref(uri="file:///heavy.png"))
    return completed(image, confidence, None, reason="ok", policy="test", **SAID)


def test_a_step_tells_where_the_time_went() -> None:
    assert (DRAFT.queue_ms, DRAFT.generate_ms) == (5, 20)
    assert (DRAFT.level, DRAFT.confidence, DRAFT.threshold, DRAFT.image) == ("light", 0.2, 0.5, an_image_ref())


def test_a_step_tells_where_the_generation_really_began() -> None:
    blank, over = (an_image(a_job(refine_from_step=3), refine_from_step=step) for step in (0, 3))
    assert [step_of(image, None, None).refine_from_step for image in (blank, over)] == [0, 3]


def test_a_result_adds_up_where_the_time_of_its_calls_went_and_a_batch_shares_it() -> None:
    light = an_image(batch=2, times=CallTimes(load_ms=8.0, encode_ms=2.0, denoise_ms=6.0, decode_ms=4.0))
    heavy = an_image(times=CallTimes(load_ms=0.5, encode_ms=1.0, denoise_ms=9.0, decode_ms=2.0))
    path = [step_of(light, 0.2, 0.5), step_of(heavy, 0.9, None)]
    result = result_of(an_outcome(path=tuple(path)))
    assert (result.load_ms, result.encode_ms, result.denoise_ms, result.decode_ms) == (4.5, 2.0, 12.0, 4.0)
    untold = result_of(an_outcome(path=(path[0], step_of(an_image(), None, None))))
    assert untold.denoise_ms is None, "a part of the time is no time of all"


def on_a_worker_of(price_per_hour: float, **changes: Any) -> Stage:
    made = Made(variant="light", seed=7, steps=2, guidance=1, width=32, height=32, price_per_hour=price_per_hour)
    return dataclasses.replace(step_of(an_image(), None, None), made=made, **changes)


def test_a_request_costs_the_worker_time_of_its_stages_each_at_its_own_workers_price() -> None:
    light = on_a_worker_of(0.9, generate_ms=8000, batch=4)
    heavy = on_a_worker_of(3.6, stage=1, level="heavy", generate_ms=5000)
    assert cost_of((light,)) == pytest.approx(2 * 0.9 / 3600)
    result = result_of(an_outcome(path=(light, heavy)))
    assert result.cost == pytest.approx((2 * 0.9 + 5 * 3.6) / 3600)


def test_a_request_with_a_stage_of_unknown_price_has_no_cost() -> None:
    dear = on_a_worker_of(3.6)
    for other in (on_a_worker_of(0.0), step_of(an_image(made=None), None, None)):
        assert result_of(an_outcome(path=(other, dear))).cost is None, "the price of a part is not that of all"
    assert result_of(an_outcome(path=())).cost is None


def test_clocks_that_disagree_never_make_a_negative_time() -> None:
    step = step_of(an_image(started_ms=NOW_MS + 9, generated_ms=NOW_MS + 8), None, None)
    assert (step.queue_ms, step.generate_ms) == (0, 0)


def test_the_result_of_an_escalated_request_names_the_last_image_and_both_stages() -> None:
    result = result_of(a_completed_one())
    assert (result.status, result.level, result.worker_id, result.plan_version) == ("COMPLETED", "heavy", "w-2", 2)
    assert (result.image_uri, result.width) == ("file:///heavy.png", 32)
    assert (result.escalated, result.generate_ms, result.latency_ms) == (True, 20 + 200, 1000)
    assert (result.hardness, result.class_models, result.confidence) == (0.5, "light", 0.9)
    assert [(s["level"], s["threshold"]) for s in json.loads(result.path)] == [("light", 0.5), ("heavy", None)]


def test_the_path_of_a_result_is_all_that_its_steps_say() -> None:
    outcome = a_completed_one()
    assert json.loads(result_of(outcome).path) == [to_wire(Stage)(stage) for stage in outcome.path]


def test_a_confidence_that_is_no_number_is_recorded_as_what_it_counted_for() -> None:
    result = result_of(a_completed_one(math.nan))
    assert result.confidence == 0
    assert "NaN" not in result.path


def test_a_draft_is_no_answer_when_its_request_expired() -> None:
    job = a_job(stage=1, path=(DRAFT,))
    outcome = expired(job, reason="late", policy="test", **SAID)
    result = result_of(outcome)
    assert (result.status, result.image_uri, result.escalated) == (Status.EXPIRED, None, False)
    assert (result.prompt, result.generate_ms, outcome.path) == ("a red heart", 20, (DRAFT,))


@pytest.mark.parametrize("build", [rejected, expired, failed])
@pytest.mark.parametrize("subject", ["r-1", a_request(), a_classified(), a_job()])
def test_a_request_can_end_at_any_stage_of_being_known(build, subject) -> None:
    outcome = build(subject, reason="because", **SAID)
    assert (outcome.request_id, outcome.reason, outcome.by, outcome.ended_ms) == (
        "r-1",
        "because",
        "test",
        NOW_MS + 1000,
    )
    result = result_of(outcome)
    assert (result.request_id, result.status, result.path) == ("r-1", outcome.status, "[]")
    known = not isinstance(subject, str)
    assert (outcome.request is not None) == known


@pytest.mark.parametrize(
    ("created_ms", "latency_ms"), [(NOW_MS - 5000, 5040), (0, 39), (NOW_MS - 2 * 86_400_000, 39)]
)  # fmt: skip
def test_a_senseless_creation_time_makes_no_latency_of_decades(created_ms: int, latency_ms: int) -> None:
    # the planner would take it for a request that was served too late
    classified = a_classified(a_request(created_ms=created_ms), received_ms=NOW_MS + 1)
    said = an_outcome(request=classified.request, classified=classified, ended_ms=NOW_MS + 40)
    assert result_of(said).latency_ms == latency_ms


def reused_result(*stages: StageReuse | None) -> tuple[bool, int | None, float | None, str]:
    path = tuple(step_of(an_image(reuse=each), None, None) for each in stages)
    result = result_of(Outcome(request_id="r", status=Status.COMPLETED, reason="", by="t", ended_ms=NOW_MS, path=path))
    return result.reused, result.reuse_step, result.similarity, result.reuse_miss


def test_a_result_says_whether_it_began_from_a_stored_image_or_why_not() -> None:
    begun, missed = StageReuse(step=4, steps=10, similarity=0.9), StageReuse(steps=10, miss="floor")
    assert reused_result(None) == reused_result() == (False, None, None, "")
    assert reused_result(begun) == (True, 4, 0.9, "")
    assert reused_result(missed) == (False, None, None, "floor")
    refused_draft = StageReuse(steps=25, miss="route")  # the next level of a cascade asks for none
    assert reused_result(begun, refused_draft) == (True, 4, 0.9, "")
    assert reused_result(missed, refused_draft) == (False, None, None, "floor")


def test_a_stage_names_who_scored_it_and_the_latent_of_its_image() -> None:
    latent = LatentRef(uri="memory:x", sha256="ab", bytes=9, autoencoder="cd")
    outcome = completed(an_image(latent=latent), 0.9, 0.5, reason="ok", policy="test", discriminator="look", **SAID)
    assert [(stage.discriminator, stage.latent) for stage in outcome.path] == [("look", latent)]

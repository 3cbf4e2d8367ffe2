"""A promise of quality binds: what is kept, what is generated at all, and what is said of it."""

from typing import Any

import pytest

from planner.catalog.guarantees import Guarantee, Promise
from planner.catalog.model import Catalog
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed, step_of, too_late
from planner.serving.routing.escalation import Escalate, EscalationLogic, Keep, Score
from planner.serving.routing.placement import Placement
from planner.serving.routing.refuge import RefugeLogic
from planner.serving.routing.routing import NO_LIMITS, BacklogLimits, RoutingLogic
from schemas.errors import InvalidRequest
from schemas.messages import ClassifiedRequest, GenerateOptions, Plan, PromisedQuality, Status
from tests.builders import (
    NOW_MS,
    a_cascade,
    a_catalog,
    a_classified,
    a_job,
    a_plan,
    a_request,
    an_image,
)
from tests.planner.serving.workers import FixedLoads

EASY, HARD = 0.2, 0.8
IDLE = FixedLoads({"light": 0.0, "heavy": 0.0})
BUSY = FixedLoads({"light": 0.0, "heavy": 60_000.0})


def a_row(band: int, alpha: float, threshold: float = 0.0, n: int = 400) -> Promise:
    return Promise(band=band, alpha=alpha, threshold=threshold, bound=alpha, kept_share=0.5, n=n)


def a_guarantee(level: str, judge: str, *rows: Promise) -> Guarantee:
    return Guarantee(
        level=level, discriminator=judge, delta=0.05, n=1000, date="2026-11-29", standard="all facts hold",
        bounds=(0.0, 0.5, 1.0), rows=rows,
    )  # fmt: skip


# light keeps easy drafts at .2 and .1, hard ones at .2 alone; heavy is wrong on .05 of the easy and .15 of the hard
CATALOG = a_catalog(
    guarantees=(
        a_guarantee("light", "look", a_row(0, 0.1, 0.9), a_row(0, 0.2, 0.7), a_row(1, 0.2, 0.95)),
        a_guarantee("heavy", "", a_row(0, 0.05), a_row(1, 0.15)),
        a_guarantee("light", "", a_row(0, 0.4), a_row(1, 0.6)),
    )
)


def stating(share: float | None = None, hardness: float = EASY, **more: Any) -> ClassifiedRequest:
    options = GenerateOptions(quality_at_least=share, **more.pop("options", {}))
    return a_classified(a_request(options=options, **more), hardness=hardness)


def routed(asked: ClassifiedRequest, plan: Plan | None = None, catalog: Catalog = CATALOG, **more: Any) -> Any:
    logic = RoutingLogic(catalog, more.pop("limits", NO_LIMITS))
    return logic.route(asked, plan or a_plan(), more.pop("loads", IDLE), NOW_MS)


def judged(asked: ClassifiedRequest, confidence: float, plan: Plan | None = None, **more: Any) -> Keep | Escalate:
    logic = EscalationLogic(CATALOG)
    score = logic.examine(plan or a_plan(cascades=(a_cascade(threshold=0.3, **more),)), "light", asked)
    assert isinstance(score, Score)
    return logic.decide(score, asked, [(32, 32)], confidence, IDLE, NOW_MS)


@pytest.mark.parametrize(
    ("share", "hardness", "from_"), [(0.9, EASY, 0.9), (0.8, EASY, 0.7), (0.8, HARD, 0.95), (0.85, EASY, 0.9)]
)
def test_a_draft_is_kept_from_the_threshold_on_that_is_promised_for_its_band(
    share: float, hardness: float, from_: float
) -> None:
    asked = stating(share, hardness)
    assert isinstance(judged(asked, from_), Keep)
    assert isinstance(judged(asked, from_ - 0.01), Escalate)
    assert isinstance(judged(stating(None, hardness), from_ - 0.01), Keep), "it is the promise that binds"


def test_a_plan_s_higher_threshold_is_not_lowered() -> None:
    plan = a_plan(cascades=(a_cascade(threshold=0.97),))
    assert isinstance(judged(stating(0.8), 0.96, plan), Escalate)


def test_a_plan_s_promise_binds_the_requests_that_state_none_and_yields_to_their_own() -> None:
    plan = a_plan(cascades=(a_cascade(threshold=0.3),), quality_at_least=0.9)
    assert isinstance(judged(stating(), 0.89, plan), Escalate)
    assert isinstance(judged(stating(), 0.9, plan), Keep)
    assert isinstance(judged(stating(0.8), 0.7, plan), Keep)


def test_a_replacement_that_is_promised_begins_from_noise() -> None:
    refining, plain = (judged(stating(share), 0.1, refine_from_step=10) for share in (None, 0.9))
    assert isinstance(refining, Escalate)
    assert isinstance(plain, Escalate)
    assert (refining.how.from_step > 0, plain.how.from_step) == (True, 0)


def test_a_band_without_a_threshold_goes_straight_to_the_next_level() -> None:
    assert routed(stating(0.85, HARD)).level == "heavy"
    assert routed(stating(0.8, HARD)).level == "light"
    promising = a_plan(quality_at_least=0.9)
    assert [routed(stating(None, hardness), promising).level for hardness in (EASY, HARD)] == ["light", "heavy"]
    assert routed(stating(None, HARD), promising).probability == 0, "the plan's draw did not decide"


@pytest.mark.parametrize(("share", "hardness", "best"), [(0.96, EASY, 0.95), (0.9, HARD, 0.85)])
def test_what_no_level_promises_is_rejected_with_the_best_that_can_be(
    share: float, hardness: float, best: float
) -> None:
    found = routed(stating(share, hardness))
    assert (found.status, found.code, found.param) == (Status.REJECTED, "unhonoured", "quality_at_least")
    assert f"no level promises quality_at_least {share}: the best that can be promised for this prompt is {best}" in (
        found.reason
    )
    assert "heavy, by 400 images judged on 2026-11-29" in found.reason
    assert isinstance(routed(stating(best, hardness)), Placement), "the best is promised indeed"


def test_a_catalog_that_was_not_measured_promises_nothing() -> None:
    found = routed(stating(0.5), catalog=a_catalog())
    assert "catalog 'test' promises nothing of it: measure it with `pochade profile`" in found.reason


def test_a_plan_that_judges_nothing_sends_a_request_past_the_level_that_promises_too_little() -> None:
    alone = a_plan(cascades=())
    assert routed(stating(0.9), alone).level == "heavy"
    assert routed(stating(0.6), alone).level == "light"
    assert routed(stating(0.9), a_plan(cascades=(), quality_at_least=0.9)).level == "heavy"


def test_a_named_model_or_the_cheapest_level_is_refused_where_its_own_images_are_not_promised() -> None:
    for asked in (stating(0.9, options={"model": "light"}), stating(0.9, quality="low")):
        found = routed(asked)
        assert "the best that can be promised for this prompt is 0.6 (light" in found.reason
    assert routed(stating(0.9, options={"model": "heavy"})).level == "heavy"


def test_no_other_level_stands_in_that_does_not_promise_it() -> None:
    limits, alone = BacklogLimits(1000, 1000), a_plan(cascades=())
    assert routed(stating(0.9), alone, loads=BUSY, limits=limits).code == "overloaded"
    assert routed(stating(0.6), alone, loads=BUSY, limits=limits).level == "light"
    job = stating(0.9, HARD, deadline_ms=NOW_MS + 10_000)
    assert RefugeLogic(CATALOG).placement(job, "heavy", a_plan(), NOW_MS) is None
    assert RefugeLogic(CATALOG).placement(stating(deadline_ms=NOW_MS + 10_000), "heavy", a_plan(), NOW_MS) is not None


def test_a_rejected_draft_is_no_answer_for_want_of_time() -> None:
    late = {"deadline_ms": NOW_MS + 10}
    assert isinstance(judged(stating(**late), 0.1), Keep)
    assert isinstance(judged(stating(0.9, **late), 0.1), Escalate)
    path = (step_of(an_image(), 0.1, 0.5),)
    jobs = [a_job(stating(share), stage=1, path=path) for share in (None, 0.9)]
    ends = [too_late(job, reason="late", by="worker", now_ms=NOW_MS).status for job in jobs]
    assert ends == [Status.COMPLETED, Status.EXPIRED]


def test_options_that_change_the_images_are_refused_beside_a_promise() -> None:
    with pytest.raises(InvalidRequest, match="quality_at_least must come without steps"):
        routed(stating(0.9, options={"steps": 9}))
    assert isinstance(routed(stating(0.9, options={"n": 4, "strict": True, "reuse": "off"})), Placement)


def test_a_kept_draft_and_an_image_of_the_last_level_say_what_is_promised_of_them() -> None:
    kept = judged(stating(0.8), 0.8)
    assert isinstance(kept, Keep)
    assert kept.promise == PromisedQuality(
        wrong_at_most=0.2, confidence=0.95, images=400, date="2026-11-29", standard="all facts hold"
    )
    strict = judged(stating(), 0.99, a_plan(cascades=(a_cascade(threshold=0.97),)))
    assert isinstance(strict, Keep)
    assert strict.promise is not None, "also of a request that asks for none"
    assert strict.promise.wrong_at_most == 0.1, "a plan's threshold above the promised one keeps its promise"
    last = EscalationLogic(CATALOG).examine(a_plan(), "heavy", stating(None, HARD))
    assert isinstance(last, Keep)
    assert last.promise is not None
    assert last.promise.wrong_at_most == 0.15
    result = result_of(completed(an_image(), 0.8, 0.7, reason="", by="", policy="", now_ms=1, promise=kept.promise))
    assert result.wrong_at_most == 0.2
    assert '"date": "2026-11-29"' in result.path


def test_nothing_is_said_of_images_that_are_not_as_those_that_were_measured() -> None:
    logic = EscalationLogic(CATALOG)
    refined = logic.examine(a_plan(), "heavy", stating(), is_derived=True)
    fewer = logic.examine(a_plan(), "heavy", stating(options={"steps": 9}))
    low = judged(stating(), 0.35)
    doubtful = judged(stating(deadline_ms=NOW_MS + 10), 0.1)
    for each in (refined, fewer, low, doubtful):
        assert isinstance(each, Keep)
        assert each.promise is None

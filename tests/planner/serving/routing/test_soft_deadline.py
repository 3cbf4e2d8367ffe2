"""Requests without a deadline while a fleet is overfull, and while it is not the fleet that holds them up."""

import math
from typing import Any

import pytest

from planner.serving.decisions import Ignored, Rejection
from planner.serving.routing.escalation import Escalate, EscalationLogic, Keep, Score
from planner.serving.routing.placement import CHEAPER, DEARER, Placement
from planner.serving.routing.routing import NO_LIMITS, BacklogLimits, RoutingLogic
from planner.serving.routing.soft_deadline import WHENEVER, Deadlines, Due, soft_slo_ms
from schemas.messages import GenerateOptions, Route, Status
from tests.builders import NOW_MS, a_cascade, a_catalog, a_classified, a_plan, a_request
from tests.planner.serving.workers import FixedLoads

CATALOG = a_catalog()  # light takes 20 ms, heavy 200
SLO_MS = 2000.0
BOTH = {"a": "light", "b": "heavy"}
HOUR_MS = 3_600_000
FOUR = GenerateOptions(n=4)


def due(received_ms: int = NOW_MS, **asked: Any) -> Due:
    return Deadlines(CATALOG, SLO_MS).of(a_classified(a_request(**asked), received_ms=received_ms))


def placed(
    waits_ms: dict[str, float], to: str = "heavy", received_ms: int = NOW_MS, slo_ms: float = SLO_MS,
    limits: Any = NO_LIMITS, **asked: Any,
) -> Placement | Rejection | Ignored:  # fmt: skip
    plan = a_plan(routes=(Route(levels={to: 1.0}),), allocation=BOTH)
    logic = RoutingLogic(CATALOG, limits, slo_ms=slo_ms)
    loads = FixedLoads(waits_ms, workers=sum(map(math.isfinite, waits_ms.values())))
    return logic.route(a_classified(a_request(**asked), received_ms=received_ms), plan, loads, NOW_MS)


def went_to(waits_ms: dict[str, float], **more: Any) -> tuple[str, str]:
    found = placed(waits_ms, **more)
    assert isinstance(found, Placement)
    return found.level, found.fallback


def judged(wait_ms: float, received_ms: int = NOW_MS, workers: int = 2, **asked: Any) -> Keep | Escalate:
    """A draft that is not good enough, where so much work waits for the next level."""
    logic, request = EscalationLogic(CATALOG, SLO_MS), a_request(**asked)
    score = logic.examine(a_plan(cascades=(a_cascade(threshold=0.5),)), "light", a_classified(request))
    assert isinstance(score, Score)
    loads = FixedLoads({"heavy": wait_ms}, workers)
    return logic.decide(score, a_classified(request, received_ms=received_ms), [(32, 32)], 0.1, loads, NOW_MS)


def test_a_request_without_a_deadline_has_a_soft_one_from_its_record_on_prompts() -> None:
    assert due(received_ms=NOW_MS - 500, created_ms=1) == Due(NOW_MS - 500 + SLO_MS, is_soft=True)
    assert due(tier="interactive") == due()
    assert due(deadline_ms=NOW_MS + 5) == Due(NOW_MS + 5), "its own counts, and ends it"
    assert due(tier="batch") == WHENEVER
    assert Deadlines(CATALOG, 0.0).of(a_classified()) == WHENEVER


def test_a_request_for_more_work_than_a_plain_one_has_as_much_more_time() -> None:
    at_ms = due(options=FOUR).at_ms
    assert at_ms is not None
    assert (at_ms - NOW_MS) / SLO_MS == pytest.approx(2.0), "four of heavy's images take 400 ms, one takes 200"
    assert due(options=GenerateOptions(steps=1)) == due(), "less work leaves the SLO as it is"


def test_the_slo_is_the_one_asked_for_else_the_catalogs_else_the_longest_wait_that_is_admitted() -> None:
    assert soft_slo_ms(3.0, a_catalog(slo_s=5.0), 60.0, 0.2) == 3000
    assert soft_slo_ms(0.0, a_catalog(slo_s=5.0), 60.0, 0.2) == 5000
    assert soft_slo_ms(0.0, a_catalog(), 60.0, 0.2) == 48_000


def test_a_request_that_would_wait_beyond_the_slo_goes_to_a_cheaper_level_and_never_expires() -> None:
    assert went_to({"light": 0.0, "heavy": 1800.0}) == ("heavy", "")
    assert went_to({"light": 0.0, "heavy": 1801.0}) == ("light", CHEAPER), "with 200 ms to run it would be late"
    assert went_to({"light": 9000.0, "heavy": 8000.0}) == ("light", CHEAPER), (
        "late on both, the cheapest works off most"
    )
    no_room = BacklogLimits(8500.0, 8500.0)
    assert went_to({"light": 9000.0, "heavy": 8000.0}, limits=no_room) == ("heavy", "")
    assert went_to({"light": 9000.0, "heavy": 100.0}, to="light") == ("heavy", DEARER)
    hard = placed({"light": 9000.0, "heavy": 9000.0}, deadline_ms=NOW_MS + 2000)
    assert isinstance(hard, Rejection)
    assert hard.status is Status.EXPIRED


def test_a_level_that_a_request_names_is_waited_for_beyond_the_slo() -> None:
    assert went_to({"light": 0.0, "heavy": 9000.0}, options=GenerateOptions(model="heavy")) == ("heavy", "")
    assert went_to({"light": 0.0, "heavy": 9000.0}, quality="high") == ("heavy", "")


def test_a_draft_is_the_answer_where_a_better_image_would_wait_beyond_the_slo() -> None:
    assert isinstance(judged(1800), Escalate)
    late = judged(1801)
    assert isinstance(late, Keep)
    assert late.is_rejected
    assert "no time left: heavy needs 2001 ms, and 2000 ms are left within the SLO" in late.reason
    assert isinstance(judged(300, received_ms=NOW_MS - 1501), Keep), "what it has waited already counts"


def test_what_an_outage_held_up_is_served_as_any_other_once_it_is_over() -> None:
    """Of the broker or of a store: each request is past the SLO, and no worker has work before it."""
    assert isinstance(judged(0, received_ms=NOW_MS - HOUR_MS), Escalate)
    assert went_to({"light": 0.0, "heavy": 0.0}, received_ms=NOW_MS - HOUR_MS) == ("heavy", "")


def test_a_batch_request_waited_for_hours_and_is_not_answered_by_its_draft_for_time() -> None:
    assert isinstance(judged(9000, received_ms=NOW_MS - HOUR_MS, tier="batch"), Escalate)
    busy = {"light": 0.0, "heavy": 9000.0}
    assert went_to(busy, received_ms=NOW_MS - HOUR_MS, tier="batch") == ("heavy", "")


def test_a_fleet_without_workers_is_waited_for() -> None:
    nobody = {"light": math.inf, "heavy": math.inf}
    assert went_to(nobody, received_ms=NOW_MS - HOUR_MS) == ("heavy", "")
    assert isinstance(judged(math.inf, workers=0), Escalate)
    assert isinstance(judged(math.inf, workers=1), Keep), "others are served, and that level is not"


def admitted(
    light_ms: float, heavy_ms: float, slo_ms: float = 0.0, most_ms: float = 9000.0, **asked: Any
) -> Placement | Rejection:
    """Half of light's drafts go on to heavy."""
    cascade = a_cascade(threshold=0.5)
    plan = a_plan(routes=(Route(levels={"light": 1.0}),), allocation=BOTH, cascades=(cascade,))
    logic = RoutingLogic(CATALOG, BacklogLimits(most_ms, most_ms), slo_ms=slo_ms)
    loads = FixedLoads({"light": light_ms, "heavy": heavy_ms})
    found = logic.route(a_classified(a_request(**asked)), plan, loads, NOW_MS)
    assert not isinstance(found, Ignored)
    return found


def test_a_request_is_admitted_by_the_work_that_waits_on_its_whole_way() -> None:
    assert isinstance(admitted(4000, 10_000), Placement)
    refused = admitted(4000, 10_002)
    assert isinstance(refused, Rejection)
    assert (refused.status, refused.code, refused.retry_after_ms) == (Status.REJECTED, "overloaded", 1)
    assert isinstance(admitted(4000, 10_002, quality="low"), Placement), "its draft is the answer"
    assert isinstance(admitted(4000, 10_002, deadline_ms=NOW_MS + 9000), Placement), "its draft would have to do"
    assert isinstance(admitted(4000, 10_002, slo_ms=9000), Placement)
    assert isinstance(admitted(6000, 8900, slo_ms=8990), Placement), "its whole way ends by then"
    assert isinstance(admitted(4000, 10_002, slo_ms=60_000), Rejection), "it would wait for heavy"
    assert isinstance(admitted(4000, math.inf), Placement), "until a worker comes nothing is known"


def test_what_an_outage_held_up_is_no_backlog() -> None:
    limits = BacklogLimits(1000, 1000)
    waiting = {"light": 0.0, "heavy": 900.0}
    assert went_to(waiting, limits=limits, slo_ms=0.0, received_ms=NOW_MS - HOUR_MS) == ("heavy", "")


def test_once_placed_a_request_is_not_rejected_for_waiting() -> None:
    logic = RoutingLogic(CATALOG, BacklogLimits(1000, 1000), slo_ms=SLO_MS)
    plan, busy = (
        a_plan(routes=(Route(levels={"heavy": 1.0}),), allocation=BOTH),
        FixedLoads({"light": 1e6, "heavy": 2e6}),
    )
    assert isinstance(logic.route(a_classified(), plan, busy, NOW_MS), Rejection)
    assert isinstance(logic.reroute(a_classified(), plan, busy, NOW_MS + HOUR_MS), Placement)

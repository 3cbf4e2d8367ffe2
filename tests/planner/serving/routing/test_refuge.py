"""Where a job goes that a worker has come to too late for its own level."""

from typing import Any

import pytest

from planner.catalog.options import resolve_options
from planner.serving.dispatch.worker import SETTLE_MS
from planner.serving.routing.placement import CHEAPER, Placement
from planner.serving.routing.refuge import RefugeLogic
from planner.serving.routing.soft_deadline import WHENEVER, Due
from schemas.messages import Cascade, GenerateOptions
from tests.builders import NOW_MS, a_catalog, a_classified, a_discriminator, a_plan, a_request, a_variant

CATALOG = a_catalog(
    variants={
        "light": a_variant(name="light", latency_ms={1: 20.0}, quality=0.7),
        "middle": a_variant(name="middle", latency_ms={1: 100.0}, quality=0.8),
        "heavy": a_variant(name="heavy", latency_ms={1: 400.0}, quality=0.9),
    },
    discriminators={"look": a_discriminator(latency_ms=50.0)},
)
ALL = {"a": "light", "b": "middle", "c": "heavy"}


def refuge(level: str = "heavy", left_ms: float = 300, allocation: dict[str, str] = ALL, **asked: Any) -> str:
    """The level that a job with so much time left goes to; "": none."""
    judge = asked.pop("cascades", ())
    request = a_request(deadline_ms=int(NOW_MS + left_ms), **asked)
    placed = RefugeLogic(CATALOG).placement(
        a_classified(request), level, a_plan(allocation=allocation, cascades=judge), NOW_MS
    )
    return placed.level if placed else ""


def test_a_late_job_goes_to_the_cheapest_level_that_has_workers() -> None:
    assert refuge() == "light"
    assert refuge(allocation={"b": "middle", "c": "heavy"}) == "middle"
    assert refuge(level="heavy~k4") == "light", "a level of reuse is its variant's"


def test_its_placement_is_as_the_router_would_place_it_there() -> None:
    placed = RefugeLogic(CATALOG).placement(a_classified(), "heavy", a_plan(allocation=ALL), NOW_MS)
    own = resolve_options(GenerateOptions(), CATALOG.level("light"))
    assert placed == Placement("light", "light", own, 20.0, 0.0, CHEAPER)


def test_nothing_is_sent_where_it_would_be_late_as_well() -> None:
    assert refuge(left_ms=21) == "light"
    assert refuge(left_ms=19) == ""
    judged = (Cascade(level="light", next_level="heavy", discriminator="look", threshold=0.5),)
    assert refuge(left_ms=60, cascades=judged) == "", "its images are judged for 50 ms"
    assert refuge(left_ms=80, cascades=judged) == "light"


def test_the_cheapest_level_has_none_below_it() -> None:
    assert refuge(level="light") == ""
    assert refuge(allocation={"c": "heavy"}) == ""


@pytest.mark.parametrize(
    "asked",
    [
        {"quality": "high"},
        {"options": GenerateOptions(model="heavy")},
        {"options": GenerateOptions(adapters=("ink",))},
        {"options": GenerateOptions(steps=7, strict=True)},
    ],
)
def test_nothing_stands_in_for_what_the_request_asked_for(asked: dict[str, Any]) -> None:
    assert refuge(**asked) == ""


def test_a_strict_job_goes_to_the_cheapest_level_that_honours_it() -> None:
    honours = {"light": (), "middle": ("steps",), "heavy": ("steps",)}
    times = {"light": 20.0, "middle": 100.0, "heavy": 400.0}
    variants = {name: a_variant(name=name, latency_ms={1: times[name]}, honours=honours[name]) for name in honours}
    request = a_request(deadline_ms=NOW_MS + 2000, options=GenerateOptions(steps=3, strict=True))
    placed = RefugeLogic(a_catalog(variants=variants)).placement(
        a_classified(request), "heavy", a_plan(allocation=ALL), NOW_MS
    )
    assert placed is not None
    assert (placed.level, placed.overridden) == ("middle", ())


def test_a_job_without_a_deadline_is_late_after_the_slo_where_its_level_has_lost_workers_since_it_was_routed() -> None:
    logic, job = RefugeLogic(CATALOG, slo_ms=2000.0), a_classified(received_ms=NOW_MS)
    logic.obey(a_plan(version=1, created_ms=NOW_MS, allocation={"a": "heavy", "b": "heavy", "c": "light"}))
    assert logic.due(job, "heavy", NOW_MS) == WHENEVER, "an outage may have held it up"
    logic.obey(a_plan(version=2, created_ms=NOW_MS + 500, allocation={"a": "heavy", "b": "light", "c": "light"}))
    assert logic.due(job, "heavy~k4", NOW_MS) == Due(NOW_MS + 2000, is_soft=True)
    assert logic.due(job, "heavy", NOW_MS + 500 + SETTLE_MS) == Due(NOW_MS + 2000, is_soft=True), "by the plan before"
    assert logic.due(job, "heavy", NOW_MS + 501 + SETTLE_MS) == WHENEVER, "its router knew of the plan"
    assert logic.due(job, "light", NOW_MS) == WHENEVER


def test_a_request_s_own_deadline_holds_whatever_the_plans_do() -> None:
    logic, job = RefugeLogic(CATALOG, slo_ms=2000.0), a_classified(a_request(deadline_ms=NOW_MS + 700))
    assert logic.due(job, "heavy", NOW_MS) == Due(NOW_MS + 700)

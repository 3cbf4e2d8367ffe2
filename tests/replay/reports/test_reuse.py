"""What a run's report says of reuse: only what results and plans show."""

import math
from typing import Any

from replay.local.freezing import Frozen
from replay.reports.reuse import Course, rows, spans, summarize, timeline, verdict_of_switch
from schemas.messages import Plan, Result, StageReuse
from tests.builders import a_plan
from tests.replay.runs import a_result, a_step

FROZEN = Frozen(30_000, 50_000)
HIT = StageReuse(step=2, steps=8, similarity=0.97)


def reused(reuse: StageReuse | None, name: str = "r-1") -> Result:
    return a_result(a_step(level="heavy~k2", reuse=reuse), request_id=name)


def plans(*made: tuple[float, str]) -> tuple[Plan, ...]:
    """Plans by the seconds at which they were made, and their strategies."""
    return tuple(
        a_plan(version=number, created_ms=round(1000 * at_s), strategy=strategy, reason=f"reason {number}")
        for number, (at_s, strategy) in enumerate(made, 1)
    )


def course(*made: tuple[float, str], frozen: Frozen = FROZEN, **changes: Any) -> Course:
    values: dict[str, Any] = {"plans": plans(*made), "frozen": frozen, "began_ms": 10_000.0, "ended_ms": 110_000.0}
    return Course(**(values | changes))


LEFT_AND_BACK = ((5.0, "reuse"), (15.0, "reuse"), (36.0, "models"), (40.0, "models"), (90.0, "reuse"))


def test_hits_saved_steps_and_misses_by_reason_are_counted() -> None:
    missed = [StageReuse(steps=8, miss=why) for why in ("timeout", "timeout", "none")]
    found = summarize([reused(each) for each in (HIT, StageReuse(step=1, steps=8, similarity=0.5), *missed)])
    assert found is not None
    assert (found["jobs"], found["hits"], found["saved_steps"], found["steps"]) == (5, 2, 3, 40)
    assert found["saved_share"] == 3 / 40
    assert found["misses"] == {"timeout": 2, "none": 1}


def test_a_run_whose_plans_ask_for_no_reuse_has_nothing_to_say_of_it() -> None:
    assert summarize([reused(None)]) is None
    assert rows({"reuse": None}) == {}


def test_the_lines_name_what_was_planned_apart_from_what_was_missed() -> None:
    found = summarize(
        [reused(HIT), reused(StageReuse(steps=8, miss="route")), reused(StageReuse(steps=8, miss="gone"))]
    )
    lines = rows({"reuse": found, "switch": "as it was"})
    assert lines["reused"] == "1 of 3 images, which saved 2 of 24 steps (8 %)"
    assert lines["not reused"] == "1 as planned, 1 gone"
    assert lines["switch"] == "as it was"


def test_a_switch_and_the_way_back_are_timed_by_the_plans_that_made_them() -> None:
    assert verdict_of_switch(course(*LEFT_AND_BACK)) == (
        "left reuse 6 s after the vector store froze, back 40 s after it went on"
    )


def test_a_switch_that_no_plan_shows_is_not_claimed() -> None:
    assert "did not leave reuse" in verdict_of_switch(course((5.0, "reuse"), (15.0, "reuse")))
    assert "did not come back" in verdict_of_switch(course((5.0, "reuse"), (36.0, "models")))
    assert verdict_of_switch(course((5.0, "reuse"), frozen=Frozen())) == "the vector store was not frozen"


def test_a_planner_that_left_reuse_by_itself_is_told_of() -> None:
    alone = course((5.0, "reuse"), (13.0, "models"), frozen=Frozen())
    assert verdict_of_switch(alone) == "the vector store was not frozen: the planner left reuse by itself, at 3 s"


def test_a_switch_before_the_freeze_is_not_its_effect() -> None:
    before = course((5.0, "reuse"), (15.0, "models"), (20.0, "reuse"))
    assert "did not leave reuse" in verdict_of_switch(before)


def test_the_moments_of_a_run_are_in_order_and_say_the_plans_reasons() -> None:
    moments = timeline(course(*LEFT_AND_BACK))
    assert [each["at_s"] for each in moments] == [0.0, 20.0, 26.0, 40.0, 80.0]
    assert [each["what"].partition(":")[0] for each in moments] == [
        "plan 1, strategy reuse",
        "the vector store is frozen (SIGSTOP)",
        "plan 3 switches the strategy from reuse to models",
        "the vector store goes on (SIGCONT)",
        "plan 5 switches the strategy from models to reuse",
    ]
    assert moments[2]["what"].endswith("reason 3")


def test_a_run_begins_under_the_plan_that_is_in_force_by_then() -> None:
    (first, *_) = timeline(course((5.0, "reuse"), (9.0, "reuse"), (60.0, "reuse")))
    assert first["what"] == "plan 2, strategy reuse: reason 2"


def test_strategies_and_the_freeze_hold_from_one_change_to_the_next() -> None:
    held = spans(course(*LEFT_AND_BACK))
    assert [(each["what"], each["from_s"], each["to_s"]) for each in held] == [
        ("reuse", 0.0, 26.0),
        ("models", 26.0, 80.0),
        ("reuse", 80.0, 100.0),
        ("frozen", 20.0, 40.0),
    ]


def test_a_store_that_was_frozen_to_the_end_and_a_run_without_plans_are_told_as_they_are() -> None:
    assert spans(course((5.0, "reuse"), frozen=Frozen(30_000, math.nan)))[-1]["to_s"] == 100.0
    assert spans(course(frozen=Frozen())) == timeline(course(frozen=Frozen())) == []

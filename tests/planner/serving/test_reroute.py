"""Jobs of a variant that has lost its last worker."""

import math
from typing import Any

import pytest

from planner.serving.escalation import Keep
from planner.serving.outcomes import step_of
from planner.serving.placement import CHEAPER, Place, TurnedAway
from planner.serving.reroute import rerouted, stranded
from schemas.messages import Admission, GenerateJob, PaintOptions, Plan, Route, Status
from tests.builders import NOW_MS, a_catalog, a_classified, a_job, a_plan, a_request, a_worker, an_image

VARIANTS = ("light", "heavy")
WAITS_MS = {"light": 40.0, "heavy": math.inf}


def all_light(**changes: Any) -> Plan:
    return a_plan(**({"allocation": {"w-1": "light"}, "cascades": ()} | changes))


def on_heavy(**request: Any) -> GenerateJob:
    return a_job(a_classified(a_request(**request)), level="heavy", variant="heavy")


def test_a_variant_is_stranded_when_the_plan_has_nobody_for_it_and_nobody_serves_it() -> None:
    assert stranded(VARIANTS, all_light(), [a_worker("w-1", "light")]) == ["heavy"]
    assert stranded(VARIANTS, a_plan(), [a_worker("w-1", "light"), a_worker("w-2", "heavy")]) == []


@pytest.mark.parametrize(
    ("why", "plan", "workers"),
    [
        ("the plan counts on one who is gone", a_plan(), [a_worker("w-1", "light")]),
        ("nobody serves anything", all_light(), [a_worker("w-1", "light", state="loading")]),
        ("nobody is there", all_light(allocation={}), []),
        ("one still drains it", all_light(), [a_worker("w-1", "light"), a_worker("w-2", "heavy", state="draining")]),
        (
            "one is on its way",
            a_plan(allocation={"w-1": "light", "w-2": "heavy"}),
            [a_worker("w-1", "light"), a_worker("w-2", "light", allocated="heavy")],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_none_is_stranded_as_long_as_somebody_may_come(why: str, plan: Plan, workers: list[Any]) -> None:
    assert stranded(VARIANTS, plan, workers) == [], why


def test_a_job_goes_where_the_plan_in_force_draws_its_request() -> None:
    fate = rerouted(all_light(), on_heavy(), a_catalog(), WAITS_MS, NOW_MS)
    assert fate == Place("light", 1.0, ())


def test_one_that_the_plan_still_draws_for_the_lost_variant_goes_to_a_cheaper_one() -> None:
    plan = all_light(routes=(Route(levels={"heavy": 1.0}),))
    assert rerouted(plan, on_heavy(), a_catalog(), WAITS_MS, NOW_MS) == Place("light", 0.0, (), CHEAPER)


def test_what_was_let_in_is_neither_shed_nor_refused_for_the_backlog() -> None:
    nobody = all_light(
        admission=Admission(
            shares=dict.fromkeys(("interactive", "standard", "batch"), 0.0), reason="full", retry_after_ms=1
        )
    )
    fate = rerouted(nobody, on_heavy(), a_catalog(), {"light": 1e9, "heavy": math.inf}, NOW_MS)
    assert isinstance(fate, Place)


def test_one_that_no_level_paints_in_time_expires() -> None:
    fate = rerouted(all_light(), on_heavy(deadline_ms=NOW_MS + 30), a_catalog(), WAITS_MS, NOW_MS)
    assert isinstance(fate, TurnedAway)
    assert fate.status is Status.EXPIRED


@pytest.mark.parametrize("deadline_ms", [None, NOW_MS + 5])
def test_one_that_names_the_lost_model_waits_for_it(deadline_ms: int | None) -> None:
    job = on_heavy(options=PaintOptions(model="heavy"), deadline_ms=deadline_ms)
    assert rerouted(all_light(), job, a_catalog(), WAITS_MS, NOW_MS) is None


def test_one_that_was_to_replace_a_draft_leaves_it_as_the_answer() -> None:
    job = a_job(level="heavy", variant="heavy", stage=1, path=(step_of(an_image(), 0.2, 0.5),))
    fate = rerouted(all_light(), job, a_catalog(), WAITS_MS, NOW_MS)
    assert fate == Keep(None, "nobody serves heavy any more; the draft was kept")

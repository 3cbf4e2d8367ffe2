"""What two plans decided otherwise."""

import dataclasses

from agents.planning.report import differences
from schemas.messages import Route
from tests.builders import a_cascade, a_plan


def test_plans_that_decide_the_same_do_not_differ_whatever_they_are_called() -> None:
    assert differences(a_plan(), a_plan(version=9, created_ms=1, reason="other", memory='{"n": 2}')) == []


def test_each_part_that_was_decided_otherwise_is_told_before_and_after() -> None:
    before = a_plan(batch={"light": 1})
    after = dataclasses.replace(
        before, policy="another", routes=(Route(levels={"heavy": 1.0}, hardness_from=0.0),),
        cascades=(a_cascade(threshold=0.75, paint_over_step=3),), allocation={"w-1": "heavy", "w-3": "heavy"},
        batch={"light": 1, "heavy": 4},
    )  # fmt: skip
    told = {what: (was, now) for what, was, now in differences(before, after)}
    assert told == {
        "policy": ("test", "another"),
        "routes": ("hardness 0 to 1 -> light 100%", "hardness 0 to 1 -> heavy 100%"),
        "cascade after light": (
            "light -> heavy if look < 0.500",
            "light -> heavy if look < 0.750, over the draft from step 3",
        ),
        "workers on heavy": ("1", "2"),
        "workers on light": ("1", "-"),
        "batch of heavy": ("-", "4"),
        "worker w-1": ("light", "heavy"),
        "worker w-2": ("heavy", "-"),
        "worker w-3": ("-", "heavy"),
    }

"""What two plans decided otherwise, and whom a plan lets in."""

import dataclasses

import pytest

from agents.commands.plan_tables import print_plan, print_report
from agents.planner.describing import describe_admission, differences
from agents.planner.report import Task, report, solve_task
from planner.control.propose import Rules
from schemas.messages import Admission, Route
from tests.builders import a_cascade, a_catalog, a_plan, an_observation


def test_plans_that_decide_the_same_do_not_differ_whatever_they_are_called() -> None:
    assert differences(a_plan(), a_plan(version=9, created_ms=1, reason="other", memory='{"n": 2}')) == []


def test_each_part_that_was_decided_otherwise_is_reported_before_and_after() -> None:
    before = a_plan(batch={"light": 1})
    after = dataclasses.replace(
        before, policy="another", routes=(Route(levels={"heavy": 1.0}, hardness_from=0.0),),
        cascades=(a_cascade(threshold=0.75, refine_from_step=3),), allocation={"w-1": "heavy", "w-3": "heavy"},
        batch={"light": 1, "heavy": 4},
    )  # fmt: skip
    reported = {what: (was, now) for what, was, now in differences(before, after)}
    assert reported == {
        "policy": ("test", "another"),
        "routes": ("hardness 0 to 1 -> light 100%", "hardness 0 to 1 -> heavy 100%"),
        "cascade after light": (
            "light -> heavy if the confidence by look is below 0.500",
            "light -> heavy if the confidence by look is below 0.750, from step 3 of the draft",
        ),
        "workers on heavy": ("1", "2"),
        "workers on light": ("1", "-"),
        "batch of heavy": ("-", "4"),
        "worker w-1": ("light", "heavy"),
        "worker w-2": ("heavy", "-"),
        "worker w-3": ("-", "heavy"),
    }


def test_other_shares_of_a_tier_that_are_let_in_are_a_difference() -> None:
    less, least = (Admission(shares={"batch": s, "interactive": 1.0}, reason="", retry_after_ms=1) for s in (0.5, 0.0))
    assert differences(a_plan(), a_plan(admission=less)) == [("admitted of batch", "-", "50%")]
    assert differences(a_plan(admission=less), a_plan(admission=least)) == [("admitted of batch", "50%", "0%")]


def test_who_is_let_in_and_why_is_reported_to_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    task = Task("clipper-heavy", an_observation(1, demand_rps=50.0), a_catalog(), {}, {"batch": 1})
    found = solve_task(task)
    admission = found.proposal.admission
    assert admission is not None
    reported = report(task, found)
    assert reported["admission"]["reason"] == admission.reason
    assert reported["admission"]["shares"] == {"interactive": 1.0, "standard": 0.1, "batch": 0.0}
    print_report(reported)
    print_plan(a_plan(admission=admission), None)
    assert capsys.readouterr().out.count("shed: demand 50/s, capacity 5/s") == 2
    patient = task._replace(rules=Rules(sheds=False))
    assert report(patient, solve_task(patient))["admission"] is None
    assert describe_admission(None) == "all requests"


def test_what_is_solved_explores_as_the_planner_does() -> None:
    task = Task("diffserve-static", an_observation(2, demand_rps=1.0), a_catalog(), rules=Rules(explore=0.1))
    assert solve_task(task).proposal.routes[0].levels == pytest.approx({"light": 0.95, "heavy": 0.05})

"""A plan in one sentence: what an operator reads on every surface."""

import dataclasses
import re

import pytest

from planner.control.plans import publish
from planner.control.propose import Rules, propose
from planner.control.wording.sentence import describe, describe_escalation
from planner.policies import POLICIES, named
from schemas.messages import Admission, Cascade, Expected, Plan, Route
from tests.builders import NOW_MS, an_observation
from tests.planner.control.wording.test_format import tiny

RIDDLES = re.compile(
    r"\bas (?:proteus|the program|\w+ has it)|better by|found by|\bbinds?\b|honou?r|\btold\b|nobody|whoever"
    r"|of profile|aligned|saturated|~k\d|-> |^[;: ]|[;: ]$|; ;"
)


def a_plan(**changes: object) -> Plan:
    values = {
        "version": 1, "policy": "joint", "strategy": "models", "created_ms": NOW_MS, "reason": "",
        "routes": (Route(levels={"light": 1.0}),),
        "cascades": (
            Cascade(level="light", next_level="heavy", discriminator="look", threshold=0.45, refine_from_step=2),
        ),
        "allocation": {"w-1": "heavy", "w-2": "heavy", "w-3": "light"},
        "expected": Expected(demand_rps=1.2, utilization=0.3, heavy_share=0.5, quality=0.93),
    }  # fmt: skip
    return Plan(**(values | changes))  # type: ignore[arg-type]


def at(rps: float, busy: float = 0.63, quality: float = 0.93) -> Expected:
    return Expected(demand_rps=rps, utilization=busy, heavy_share=0.5, quality=quality)


def test_a_plan_is_one_sentence_of_workers_requests_escalation_expectation_and_cause() -> None:
    before = a_plan(cascades=())
    assert describe(a_plan(version=2, expected=at(3.4)), before) == (
        "2 workers of heavy and 1 of light: all requests go to light; images of light with a confidence below 0.45 are "
        "generated again on heavy, from step 2 of the draft; at 3.4 requests/s the busiest workers are 63% busy, "
        "expected quality 0.93 on the catalog's scale; changed because demand rose from 1.2 to 3.4 requests/s"
    )


@pytest.mark.parametrize(
    ("changes", "why", "cause"),
    [
        ({"policy": "hadis"}, "an operator ordered it", "policy hadis plans in place of joint"),
        ({"allocation": {"w-1": "heavy", "w-4": "light"}}, "", "w-2 and w-3 left and w-4 joined"),
        ({"cascades": ()}, "the backlog grew to 3.0 s a worker", "the backlog grew to 3.0 s a worker"),
        ({"strategy": "reuse"}, "", "the strategy changed from models to reuse"),
        ({"cascades": (), "expected": at(0.6)}, "", "demand fell from 1.2 to 0.6 requests/s"),
        ({"cascades": (), "expected": at(1.2, 0.3, 0.94)}, "", "the expected quality rose from 0.93 to 0.94"),
        ({"cascades": ()}, "", "queues, run times or confidences changed while the demand did not"),
    ],
)  # fmt: skip
def test_what_called_for_a_change_is_its_cause(changes: dict[str, object], why: str, cause: str) -> None:
    assert describe(a_plan(version=2, **changes), a_plan(), "", why).endswith(f"; changed because {cause}")


def test_a_plan_that_decides_the_same_says_so() -> None:
    assert describe(a_plan(version=2, expected=at(9.0)), a_plan()).endswith("; decides as plan 1 did")


@pytest.mark.parametrize(
    ("routes", "words"),
    [
        ((Route(levels={"light": 0.3, "heavy": 0.7}),), "requests go by chance, 30% to light and 70% to heavy"),
        (
            (Route(levels={"light": 1.0}, hardness_to=0.35), Route(levels={"heavy": 1.0}, hardness_from=0.35)),
            "requests go by the hardness of their prompt, below 0.35 to light and from 0.35 on to heavy",
        ),
        (
            tuple(
                Route(levels={level: 1.0}, hardness_from=band / 4, hardness_to=(band + 1) / 4)
                for band, level in enumerate(("heavy", "light", "heavy", "light"))
            ),
            "requests go to heavy or light by the hardness of their prompt, in 4 bands",
        ),
        (
            (Route(label="easy", levels={"light": 1.0}), Route(levels={"light": 0.5, "heavy": 0.5})),
            "requests go to light or heavy by the class of their prompt",
        ),
        ((Route(levels={"heavy~k4": 1.0}),), "all requests go to heavy begun up to 4 steps on from stored images"),
    ],
)
def test_routes_are_told_by_what_decides_a_request_s_level(routes: tuple[Route, ...], words: str) -> None:
    assert f": {words}" in describe(a_plan(routes=routes, cascades=()))


def test_what_cannot_be_served_is_said_with_its_share() -> None:
    admission = Admission(shares={"standard": 0.84, "batch": 0.0}, reason="shed", retry_after_ms=5000)
    words = describe(a_plan(expected=at(25.0, 1.25), admission=admission))
    assert "84% of standard requests and 0% of batch requests are admitted" in words
    assert "at 25 requests/s, 1.25 times what the busiest workers serve, 20% are late or rejected" in words
    assert describe(a_plan(allocation={})).startswith("no worker is live, so requests wait")


@pytest.mark.parametrize("policy", POLICIES.names())
def test_the_sentence_of_every_policy_names_levels_workers_and_units_without_riddles(policy: str) -> None:
    plan = None
    for workers, demand in ((2, 0.5), (2, 12.0), (3, 90.0)):
        seen = an_observation(workers, demand_rps=demand, slo_ms=1500.0)
        plan = publish(propose(named(policy), seen, tiny(), {}, {}, Rules()), plan, policy, NOW_MS)
        assert not RIDDLES.search(plan.reason), plan.reason
        assert re.match(r"\d+ workers? of (light|middle|heavy)\b", plan.reason), plan.reason
        assert all(f" of {level}" in plan.reason for level in plan.allocation.values()), plan.reason
        assert re.search(r"at \d[\d.]* requests/s", plan.reason), plan.reason
    assert plan is not None
    assert re.search(r"; changed because \S+ joined$", plan.reason), plan.reason


def test_a_note_of_a_policy_stands_between_what_the_plan_does_and_what_it_expects() -> None:
    words = describe(a_plan(), None, "; one more worker would allow a threshold of 0.6")
    assert "of the draft; one more worker would allow a threshold of 0.6; at 1.2 requests/s" in words
    assert dataclasses.replace(a_plan(), reason=words).reason == words


@pytest.mark.parametrize(
    ("threshold", "images"),
    [
        (0.45, "images of light with a confidence below 0.45"),
        (0.99996, "images of light with a confidence below 0.99996"),
        (1.0, "all images of light"),
    ],
)
def test_a_threshold_says_which_images_are_generated_again(threshold: float, images: str) -> None:
    cascade = Cascade(level="light", next_level="heavy", discriminator="judge", threshold=threshold)
    assert describe_escalation(cascade) == f"{images} are generated again on heavy"

"""From a proposal to a published plan."""

import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from planner.control.plans import publish
from planner.control.renewal.same_plan import decide_alike, decisions
from planner.control.validity import is_newer
from planner.policies import PlanProposal
from schemas.messages import Expected, Plan, Route
from tests.builders import NOW_MS, a_cascade, a_plan


def a_draft(**changes: Any) -> PlanProposal:
    values = {"routes": (Route(levels={"light": 1.0}),), "allocation": {"w-1": "light"}, "batch": {"light": 1},
              "reason": "test"}  # fmt: skip
    return PlanProposal(**(values | changes))


@given(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=10))
def test_versions_count_from_one_whatever_the_policy(policies: list[str]) -> None:
    plan: Plan | None = None
    for i, policy in enumerate(policies):
        published = publish(a_draft(), plan, policy, NOW_MS + i)
        assert is_newer(plan.version if plan else 0, published)
        assert (published.version, published.policy, published.created_ms) == (i + 1, policy, NOW_MS + i)
        plan = published


def test_a_plan_is_written_above_one_that_its_planner_does_not_obey() -> None:
    assert publish(a_draft(), a_plan(version=6), "test", NOW_MS, newest=9).version == 10
    assert publish(a_draft(), None, "test", NOW_MS, newest=9).version == 10


def same_decision(draft: PlanProposal, plan: Plan, policy: str = "test") -> bool:
    return decide_alike(publish(draft, None, policy, plan.created_ms), plan)


def test_only_a_changed_decision_is_worth_publishing() -> None:
    plan = publish(a_draft(memory={"b": 1, "a": [2]}), a_plan(version=6), "test", NOW_MS)
    expected = Expected(demand_rps=9, utilization=0.1, heavy_share=0)
    assert same_decision(a_draft(memory={"a": [2], "b": 1}, reason="other", expected=expected), plan)
    assert same_decision(a_draft(memory={}), plan), "what a policy remembers is no decision"
    assert not same_decision(a_draft(memory={"stage": "leaving"}), plan), "but the stage of its course is"
    assert not same_decision(a_draft(memory={"a": [2], "b": 1}), plan, "another policy")
    for change in ({"allocation": {}}, {"batch": {"light": 2}}, {"dispatch": "pull"},
                   {"cascades": (a_cascade(),)}, {"routes": ()}, {"strategy": "reuse"}):  # fmt: skip
        assert not same_decision(dataclasses.replace(a_draft(memory={"a": [2], "b": 1}), **change), plan)


def test_plans_that_decide_the_same_are_one_decision_until_another_replaces_it() -> None:
    first = a_plan(version=1, created_ms=NOW_MS)
    repeated = dataclasses.replace(first, version=2, created_ms=NOW_MS + 60_000, reason="again", memory='{"a": 1}')
    other = dataclasses.replace(first, version=3, created_ms=NOW_MS + 90_000, batch={"light": 4, "heavy": 1})
    back = dataclasses.replace(first, version=4, created_ms=NOW_MS + 95_000)
    found = decisions([first, repeated, other, back])
    assert [(each.plan.version, each.published, each.until_ms) for each in found] == [
        (1, 2, NOW_MS + 90_000), (3, 1, NOW_MS + 95_000), (4, 1, None)
    ]  # fmt: skip
    assert [each.stood_ms(NOW_MS + 100_000) for each in found] == [90_000, 5_000, 5_000]
    assert decisions([]) == []

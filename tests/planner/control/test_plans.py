"""From draft to plan, and what every plan must hold to."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.control.plans import check, is_newer, publish, same_decision
from planner.policies import PlanProposal
from schemas.errors import InvalidPlan
from schemas.messages import Expected, Plan, Route
from tests.builders import NOW_MS, a_cascade, a_catalog, a_plan, a_variant


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


def test_a_reader_ignores_versions_not_above_its_own() -> None:
    assert is_newer(0, a_plan(version=1))
    assert not is_newer(3, a_plan(version=3))
    assert not is_newer(3, a_plan(version=2))


def test_a_version_that_would_be_the_last_is_nobody_s() -> None:
    assert is_newer(3, a_plan(version=2**53))
    assert not is_newer(3, a_plan(version=2**63 - 1))


def test_a_plan_is_written_above_one_that_its_planner_does_not_obey() -> None:
    assert publish(a_draft(), a_plan(version=6), "test", NOW_MS, newest=9).version == 10
    assert publish(a_draft(), None, "test", NOW_MS, newest=9).version == 10


def test_only_a_changed_decision_is_worth_publishing() -> None:
    plan = publish(a_draft(memory={"b": 1, "a": [2]}), a_plan(version=6), "test", NOW_MS)
    expected = Expected(demand_rps=9, utilization=0.1, heavy_share=0)
    assert same_decision(a_draft(memory={"a": [2], "b": 1}, reason="other", expected=expected), plan)
    assert same_decision(a_draft(memory={"a": [2], "b": 1}), plan, "test")
    assert not same_decision(a_draft(memory={"a": [2], "b": 1}), plan, "another policy")
    for change in ({"allocation": {}}, {"batch": {"light": 2}}, {"dispatch": "pull"}, {"memory": {}},
                   {"cascades": (a_cascade(),)}, {"routes": ()}, {"strategy": "reuse"}):  # fmt: skip
        assert not same_decision(dataclasses.replace(a_draft(memory={"a": [2], "b": 1}), **change), plan)


def by_hardness(*bounds: tuple[float, float]) -> tuple[Route, ...]:
    return tuple(Route(levels={"light": 1.0}, hardness_from=lower, hardness_to=upper) for lower, upper in bounds)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"routes": by_hardness((0, 0.4), (0.4, 1))},
        {"routes": by_hardness((0.4, 1), (0, 0.4))},
        {"routes": (Route(label="light", levels={"light": 1.0}), Route(label="heavy", levels={"heavy": 1.0}))},
        {"routes": (Route(label="light", levels={"light": 1.0}), *by_hardness((0, 1)))},
        {"routes": (Route(levels={"light": 0.1 + 0.2, "heavy": 0.7}),)},
        {"allocation": {}, "batch": {}, "cascades": ()},
        {"cascades": (a_cascade(threshold=0.0),)},
        {"cascades": (a_cascade(refine_from_step=24),)},
    ],
)
def test_whole_plans_pass(changes: dict[str, Any]) -> None:
    check(a_plan(**changes), a_catalog())


@pytest.mark.parametrize(
    ("changes", "reported"),
    [
        ({"routes": ()}, "there must be a route"),
        ({"routes": (Route(levels={}),)}, "sum to 1: got 0"),
        ({"routes": (Route(levels={"light": 0.9}),)}, "sum to 1: got 0.9"),
        ({"routes": (Route(levels={"light": float("nan")}),)}, "got nan"),
        ({"routes": (Route(levels={"light": 1.5, "heavy": -0.5}),)}, r"in \[0, 1\]: got 1.5"),
        ({"routes": (Route(levels={"lihgt": 1.0}),)}, "unknown level 'lihgt'.*did you mean 'light'"),
        ({"routes": by_hardness((0, 0.4), (0.5, 1))}, "without gap or overlap"),
        ({"routes": by_hardness((0, 0.6), (0.5, 1))}, "without gap or overlap"),
        ({"routes": by_hardness((0, 0.5), (0.5, 0.5), (0.5, 1))}, "without gap or overlap"),
        ({"routes": by_hardness((0, 0.9))}, "without gap or overlap"),
        ({"routes": by_hardness((0, 1), (0, 1))}, "without gap or overlap"),
        ({"routes": (Route(label="light", levels={"light": 1.0}),)}, r"classes without a route: \['heavy'\]"),
        ({"routes": (Route(label="light", levels={"light": 1.0}),) * 2}, "must be one route a class"),
        ({"cascades": (a_cascade(threshold=1.1),)}, r"threshold after light must be in \[0, 1\]: got 1.1"),
        ({"cascades": (a_cascade(threshold=float("nan")),)}, "got nan"),
        ({"cascades": (a_cascade(discriminator="lok"),)}, "unknown discriminator 'lok'"),
        ({"cascades": (a_cascade(next_level="hevy"),)}, "did you mean 'heavy'"),
        ({"cascades": (a_cascade(), a_cascade(threshold=0.1))}, "one cascade a level"),
        ({"cascades": (a_cascade(next_level="light"),)}, "cycle light -> light"),
        ({"cascades": (a_cascade(), a_cascade(level="heavy", next_level="light"))}, "cycle light -> heavy -> light"),
        ({"allocation": {"w-1": "hevy"}}, "did you mean 'heavy'"),
        ({"batch": {"light": 0}}, "batch of light must be >= 1: got 0"),
        ({"batch": {"other": 1}}, "unknown level 'other'"),
        ({"cascades": (a_cascade(refine_from_step=25),)}, r"must be in \[0, 25\), the steps of heavy: got 25"),
        ({"cascades": (a_cascade(refine_from_step=-1),)}, "got -1"),
        ({"dispatch": "least-wrok"}, "did you mean 'least-work'"),
        ({"strategy": "model"}, "did you mean 'models'"),
        ({"memory": "[]"}, r"memory must be a JSON object: got '\[\]'"),
        ({"memory": "{"}, "memory must be a JSON object"),
        ({"memory": "[" * 100_000}, "memory must be a JSON object"),
    ],
)
def test_a_plan_that_contradicts_itself_or_the_catalog_is_refused_and_named(
    changes: dict[str, Any], reported: str
) -> None:
    with pytest.raises(InvalidPlan, match=reported) as raised:
        check(a_plan(version=7, **changes), a_catalog())
    assert str(raised.value).startswith("plan 7 of 'test'")


def test_a_draft_of_another_size_is_not_refined() -> None:
    variants = a_catalog().variants | {"light": a_variant(width=64)}
    with pytest.raises(InvalidPlan, match="light generates 64 x 32 px and heavy 32 x 32"):
        check(a_plan(cascades=(a_cascade(refine_from_step=1),)), a_catalog(variants=variants))
    check(a_plan(), a_catalog(variants=variants))


def test_a_cascade_may_have_three_stages() -> None:
    catalog = a_catalog(variants=a_catalog().variants | {"middle": a_variant(name="middle")})
    chain = (a_cascade(next_level="middle"), a_cascade(level="middle", next_level="heavy"))
    check(a_plan(cascades=chain), catalog)

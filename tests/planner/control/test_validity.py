"""Which plans a reader obeys."""

from typing import Any

import pytest

from planner.control.validity import MAX_AHEAD, check, check_live, is_newer, is_possible
from schemas.errors import InvalidPlan
from schemas.messages import ReuseCheck, ReuseFloor, ReuseGuard, ReuseStorage, Route, ScalePlan
from tests.builders import a_cascade, a_catalog, a_plan, a_reuse_plan, a_variant


def test_a_reader_ignores_versions_not_above_its_own() -> None:
    assert is_newer(0, a_plan(version=1))
    assert not is_newer(3, a_plan(version=3))
    assert not is_newer(3, a_plan(version=2))


@pytest.mark.parametrize("version", [0, -5, 2**53, 2**62, 2**63 - 1])
def test_a_version_that_no_pipeline_reaches_is_impossible(version: int) -> None:
    assert not is_possible(version, offset=1000)


@pytest.mark.parametrize("offset", [0, 1, 10**6])
def test_above_the_highest_possible_version_the_next_record_may_have_the_next_one(offset: int) -> None:
    (highest,) = (v for v in (offset + MAX_AHEAD,) if is_possible(v, offset) and not is_possible(v + 1, offset))
    assert is_possible(highest + 1, offset + 1)


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
        {"cascades": (a_cascade(level="heavy~k4", next_level="heavy"),)},
        {"routes": (Route(levels={"light": 0.5, "heavy~k24": 0.5}),), "reuse": a_reuse_plan()},
        {"reuse": a_reuse_plan(guard=None, check=None, floors=())},
    ],
)
def test_whole_plans_pass(changes: dict[str, Any]) -> None:
    check(a_plan(**changes), a_catalog())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"routes": ()}, "there must be a route"),
        ({"routes": (Route(levels={}),)}, "sum to 1: got 0"),
        ({"routes": (Route(levels={"light": 0.9}),)}, "sum to 1: got 0.9"),
        ({"routes": (Route(levels={"light": float("nan")}),)}, "got nan"),
        ({"routes": (Route(levels={"light": 1.5, "heavy": -0.5}),)}, r"in \[0, 1\]: got 1.5"),
        ({"routes": (Route(levels={"lihgt": 1.0}),)}, "unknown level 'lihgt'.*did you mean 'light'"),
        ({"routes": (Route(levels={"heavy~k25": 1.0}),)}, "must leave one of the 25 steps"),
        ({"routes": (Route(levels={"heavy~4": 1.0}),)}, "unknown level 'heavy~4'"),
        ({"cascades": (a_cascade(level="heavy~k25", next_level="heavy"),)}, "must leave one of the 25 steps"),
        ({"allocation": {"w-1": "heavy~k4"}}, "unknown level 'heavy~k4'"),
        ({"reuse": a_reuse_plan(floors=(ReuseFloor(similarity=0.9, share=1.0),))}, "share in"),
        ({"reuse": a_reuse_plan(guard=ReuseGuard(equal=0.5, differs={"colours": 0.1}))}, "did you mean 'colour'"),
        ({"reuse": a_reuse_plan(guard=ReuseGuard(equal=1.5))}, "guard must be in"),
        ({"reuse": a_reuse_plan(check=ReuseCheck(discriminator="lok"))}, "did you mean 'look'"),
        ({"reuse": a_reuse_plan(check=ReuseCheck(discriminator="look", scored_share=2.0))}, "scored_share"),
        ({"reuse": a_reuse_plan(storage=ReuseStorage(eviction="lru"))}, "unknown eviction 'lru'"),
        ({"reuse": a_reuse_plan(storage=ReuseStorage(ttl_s=0.0))}, "ttl_s"),
        ({"reuse": a_reuse_plan(storage=ReuseStorage(share=-1.0))}, "share of storage"),
        ({"reuse": a_reuse_plan(storage=ReuseStorage(max_bytes=-1))}, "max_bytes"),
        ({"reuse": a_reuse_plan(storage=ReuseStorage(tenant_rps=float("nan")))}, "tenant_rps"),
        ({"reuse": a_reuse_plan(hits={"heavy~k4": 1.5})}, "hits of heavy~k4"),
        ({"reuse": a_reuse_plan(hits={"hevy~k4": 0.5})}, "did you mean 'heavy'"),
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
def test_a_plan_that_contradicts_itself_or_the_catalog_is_refused_and_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidPlan, match=told) as raised:
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


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"key": "text-image"}, "no worker has the encoder 'text-image' of prompts.*use one of scorer, words"),
        ({"storage": ReuseStorage(eviction="lcbfu")}, "no index writer can evict by 'lcbfu'.*use fifo"),
    ],
)
def test_what_the_simulator_alone_can_do_is_refused_by_live_roles(changes: dict[str, Any], told: str) -> None:
    plan = a_plan(version=7, reuse=a_reuse_plan(**changes))
    check(plan, a_catalog())
    with pytest.raises(InvalidPlan, match=f"plan 7 of 'test': reuse: {told}"):
        check_live(plan, a_catalog())


def test_live_roles_obey_plans_without_reuse_and_with_any_encoder_that_they_have() -> None:
    for reuse in (None, *(a_reuse_plan(key=key) for key in ("", "scorer", "words"))):
        check_live(a_plan(reuse=reuse), a_catalog())


def test_a_plan_that_asks_for_workers_of_no_variant_or_for_fewer_than_none_is_refused() -> None:
    for scale, reported in (
        (ScalePlan(targets={"hevy": 1}), "hevy"),
        (ScalePlan(targets={"heavy": -1}), "workers of heavy must be >= 0: got -1"),
        (ScalePlan(targets={}, warm=-1), "held warm must be >= 0: got -1"),
        (ScalePlan(targets={}, memory="[]"), "memory must be a JSON object"),
    ):
        with pytest.raises(InvalidPlan, match=reported):
            check(a_plan(scale=scale), a_catalog())
    check(a_plan(scale=ScalePlan(targets={"heavy": 2}, warm=1)), a_catalog())

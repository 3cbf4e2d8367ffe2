"""Reuse levels beside models in one plan: where they pay, where they are kept out, and when lookups get no answer."""

import dataclasses
from typing import Any

import pytest

from planner.catalog.model import Catalog
from planner.catalog.reuse import Neighbours, ReuseProfile
from planner.control.evaluate import evaluate
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.validity import check
from planner.observation.reuse import ObservedHits
from planner.policies.joint import plan
from planner.reuse.planning import TRIED
from planner.solvers.joint.program.reuse import reuse_of, routes_with
from planner.solvers.joint.searched import SEARCHED
from schemas.messages import Cascade, ReuseFloor, ReuseGuard, Route
from tests.builders import NO_ANSWER, NOW_MS, an_observation, lookups
from tests.planner.solvers.levels.builders import a_reuse_ladder, a_reuse_profile


def a_good_profile(**changes: Any) -> ReuseProfile:
    """Four prompts in five begin from step 20 of 25, and lose nothing by it."""
    values = {
        "neighbours": (Neighbours(0.96, 0.8),), "floors": (ReuseFloor(similarity=0.9, share=0.8),),
        "guard": ReuseGuard(equal=0.8), "losses": {"heavy~k10": 0.0, "heavy~k20": 0.001},
    }  # fmt: skip
    return a_reuse_profile(**(values | changes))


def a_joint_catalog(profile: ReuseProfile | None = None, **changes: Any) -> Catalog:
    return a_reuse_ladder(reuse_profile=profile or a_good_profile(), **({"indifference": 0.005} | changes))


def drafted(
    catalog: Catalog, memory: dict[str, Any] | None = None, seen: dict[str, Any] | None = None, **parameters: float
) -> PlanProposal:
    observation = an_observation(4, **({"demand_rps": 60.0, "slo_ms": 5000.0, "reuse": lookups()} | (seen or {})))
    draft = plan(observation, catalog, memory or {}, parameters)
    check(publish(draft, None, "joint", NOW_MS), catalog)
    return draft


def levels_of(draft: PlanProposal) -> set[str]:
    return {level for route in draft.routes for level in route.levels}


def test_where_the_best_variant_cannot_take_all_in_full_it_takes_them_from_stored_latents() -> None:
    catalog = a_joint_catalog()
    without, reusing = drafted(catalog, reuse=0), drafted(catalog)
    assert not any("~" in level for level in levels_of(without))
    assert "heavy~k20" in levels_of(reusing)
    assert reusing.expected.quality > without.expected.quality + 0.01
    assert "images of heavy~k20 begin from similar stored ones" in reusing.reason
    assert (reusing.reuse.guard, without.reuse) == (ReuseGuard(equal=0.8), None)
    assert reusing.reuse.check.discriminator == "look"


def test_before_a_worker_has_looked_anything_up_nothing_rests_on_hits_but_lookups_are_asked_for() -> None:
    draft = drafted(a_joint_catalog(), seen={"reuse": None})
    assert not any("~" in level for level in levels_of(draft))
    assert draft.reuse is not None, "workers open their stores for it, where there are any"
    assert "stored" not in draft.reason, "a deployment without a vector store is not told of reuse in each plan"


def test_misses_are_part_of_the_work_that_workers_are_laid_out_for() -> None:
    catalog = a_joint_catalog()
    draft = drafted(catalog)
    loads = evaluate(draft, an_observation(4, demand_rps=60.0, slo_ms=5000.0), catalog).loads
    assert all(load.utilization <= 1.01 for load in loads), loads
    assert draft.expected.utilization == pytest.approx(max(load.utilization for load in loads), abs=0.05)


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (a_good_profile(guard=None), "the profile of reuse has no floors and guard"),
        (a_good_profile(losses={"heavy~k10": 0.05, "heavy~k20": 0.1}), "no level saves 2% of the steps without a loss"),
        (a_good_profile(neighbours=(Neighbours(0.96, 0.01),)), "no level saves 2% of the steps"),
    ],
)
def test_a_profile_without_gain_keeps_reuse_out_and_the_reason_says_so(profile: ReuseProfile, reason: str) -> None:
    draft = drafted(a_joint_catalog(profile))
    assert not any("~" in level for level in levels_of(draft))
    assert draft.reuse is None
    assert f"no image begins from a stored one: {reason}" in draft.reason


def test_a_catalog_without_a_profile_is_planned_as_ever() -> None:
    catalog = a_joint_catalog()
    plain = drafted(dataclasses.replace(catalog, reuse_profile=None))
    off = drafted(catalog, reuse=0)
    memories = [{k: v for k, v in each.memory.items() if k != SEARCHED} for each in (plain, off)]
    assert (plain.routes, plain.reason, memories[0], plain.reuse) == (off.routes, off.reason, memories[1], None)


def test_lookups_without_an_answer_are_not_counted_on_until_three_plans_have_seen_them_good() -> None:
    catalog = a_joint_catalog()
    dead = drafted(catalog, seen={"reuse": NO_ANSWER})
    assert not any("~" in level for level in levels_of(dead))
    assert "no image begins from a stored one: lookups get no answer" in dead.reason
    assert dead.reuse is not None, "workers go on to test lookups"
    memory = dead.memory
    for at_s in (5, 10, 15):
        waiting = drafted(catalog, memory, {"reuse": lookups(2.0), "now_ms": NOW_MS + 1000 * at_s})
        assert not any("~" in level for level in levels_of(waiting))
        memory = waiting.memory
    back = drafted(catalog, memory, {"reuse": lookups(2.0), "now_ms": NOW_MS + 20_000})
    assert "heavy~k20" in levels_of(back)


def test_in_a_calm_no_quality_is_given_up_for_work_that_nobody_needs() -> None:
    calm = {"demand_rps": 1.0}
    plain, offered = (drafted(a_joint_catalog(), seen=calm, **changes) for changes in ({"reuse": 0}, {}))
    assert offered.expected.quality >= plain.expected.quality - 1e-6


NONE_REPEATED = ObservedHits(200, 0.0)


def shares_of(draft: PlanProposal) -> set[float]:
    """Of the requests for heavy, those that a route has looked up."""
    found = [(route.levels.get("heavy~k20", 0.0), route.levels.get("heavy", 0.0)) for route in draft.routes]
    return {round(begun / (begun + full), 3) for begun, full in found if begun + full > 0}


def test_while_hits_save_less_than_lookups_cost_a_tenth_of_the_requests_is_looked_up() -> None:
    catalog, seen = a_joint_catalog(), {"reuse": lookups(hits={"heavy~k20": NONE_REPEATED})}
    for demand_rps in (10.0, 60.0):
        draft = drafted(catalog, seen=seen | {"demand_rps": demand_rps})
        assert shares_of(draft) == {TRIED}
        assert "lookups cost more than hits save, and 10% of the requests are looked up" in draft.reason
    without = drafted(catalog, seen=seen, reuse=0)
    assert draft.expected.quality == pytest.approx(without.expected.quality, abs=1e-6)


def test_a_reuse_level_is_offered_until_lookups_cost_more_than_hits_save() -> None:
    """A hit saves .8 of 200 ms, and one request in 12.5 is one: 12.8 ms a request."""
    for cost_ms, is_offered in ((12.0, True), (14.0, False)):
        seen = an_observation(4, reuse=lookups(cost_ms, hits={"heavy~k20": ObservedHits(200, 0.08)}))
        choice = reuse_of(seen, a_joint_catalog(), {})
        assert (bool(choice.levels), choice.is_tried) == (is_offered, True)


def test_a_reuse_level_that_is_not_used_is_tried_where_prompts_repeated_less_than_profiled() -> None:
    calm = {"demand_rps": 1.0}
    fewer = calm | {"reuse": lookups(hits={"heavy~k20": ObservedHits(200, 0.3)})}
    assert shares_of(drafted(a_joint_catalog(), seen=calm)) == {0.0}
    assert shares_of(drafted(a_joint_catalog(), seen=fewer)) == {TRIED}


def test_what_has_a_cascade_of_its_own_is_not_tried() -> None:
    catalog = a_joint_catalog()
    choice = reuse_of(an_observation(4, reuse=lookups(hits={"heavy~k20": NONE_REPEATED})), catalog, {})
    assert choice.is_tried
    routes = (Route(levels={"heavy": 1.0}),)
    judged = Cascade(level="heavy", next_level="heavy", discriminator="look", threshold=0.5)
    assert routes_with(choice, routes, ())[0].levels == {"heavy": 0.9, "heavy~k20": 0.1}
    assert routes_with(choice, routes, (judged,))[0].levels == {"heavy": 1.0}

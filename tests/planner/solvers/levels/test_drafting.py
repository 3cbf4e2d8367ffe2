"""Reuse levels, and the staged switch between strategies, plan by plan."""

from collections import Counter

import pytest

from planner.catalog.reuse import Neighbours, ReuseProfile
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.shedding import sustainable_rps
from planner.control.validity import check
from planner.observation.reuse import SeenReuse
from planner.policies.argus import plan
from planner.solvers.levels.strategy_switch import LEAVING, MODELS, RETURNING, REUSE
from schemas.messages import ReuseFloor, ReuseGuard
from tests.builders import NO_ANSWER, NOW_MS, a_worker, an_observation, lookups
from tests.planner.solvers.levels.builders import a_reuse_ladder, a_reuse_profile

GOOD, SLOW = lookups(10.0), lookups(90.0)
PAST = {"heavy~k20": 0.5, "heavy~k10": 0.3, "heavy": 0.2}


def reusing(
    seen: SeenReuse | None, memory: dict, homes: tuple[str, ...] = ("heavy",) * 4, **changes: object
) -> PlanProposal:
    workers = tuple(a_worker(f"w-{i}", variant) for i, variant in enumerate(homes))
    values = {"demand_rps": 60.0, "classes": {"reuse": PAST}, "workers": workers, "reuse": seen}
    draft = plan(an_observation(**(values | changes)), a_reuse_ladder(), memory, {"overprovision": 1})
    check(publish(draft, None, "argus", NOW_MS), a_reuse_ladder())
    return draft


def rows(draft: PlanProposal) -> dict[str, dict[str, float]]:
    return {route.label: route.levels for route in draft.routes}


def test_with_reuse_levels_all_workers_keep_the_large_model_and_routes_go_to_steps() -> None:
    draft = reusing(GOOD, {})
    assert draft.strategy == "reuse"
    assert set(draft.allocation.values()) == set(draft.batch) == {"heavy"}
    assert set(rows(draft)) == {"", "heavy", "heavy~k10", "heavy~k20"}
    work = sum(60 * rows(draft)[""].get(level, 0) / rps for level, rps in (("heavy", 5), ("heavy~k10", 25 / 3)))
    assert work + 60 * rows(draft)[""]["heavy~k20"] / 25 == pytest.approx(4, rel=1e-4)
    assert draft.expected.utilization == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("seen", [SLOW, NO_ANSWER, lookups(unanswered=0.3)], ids=["slow", "silent", "partly silent"])
def test_a_slow_or_silent_store_is_left_in_the_next_plan_in_stages_without_routes_to_what_is_not_ready(
    seen: SeenReuse,
) -> None:
    first = reusing(seen, reusing(GOOD, {}).memory)
    assert (first.strategy, first.memory["stage"]) == ("models", LEAVING)
    assert set(rows(first)[""]) == {"heavy"}, "in full on the large model at once"
    assert 0 < sum(v != "heavy" for v in first.allocation.values()) <= 2, "half of the workers at most are under way"
    assert "leaving reuse" in first.reason
    half = tuple(first.allocation.values())
    second = reusing(seen, first.memory, half)
    assert set(rows(second)[""]) <= set(half)
    assert set(rows(second)[""]) != {"heavy"}, "smaller models take part as soon as they are ready"
    there = tuple(second.allocation.values())
    third = reusing(seen, second.memory, there)
    assert third.memory["stage"] == MODELS
    assert tuple(third.allocation.values()) == there
    assert reusing(seen, third.memory, there).strategy == "models"


def test_on_the_way_to_models_the_solver_takes_a_margin_for_the_smaller_ones() -> None:
    draft = reusing(SLOW, {"stage": LEAVING, "since_ms": -1}, ("light",) * 4, demand_rps=20.0)
    settled = reusing(SLOW, {"stage": MODELS, "since_ms": -1}, ("light",) * 4, demand_rps=20.0)
    assert set(settled.allocation.values()) == {"heavy"}  # four carry 20/s, not 1.5 times that
    assert draft.memory["stage"] == LEAVING
    margin = reusing(SLOW, {"stage": LEAVING, "since_ms": -1}, ("heavy", "heavy", "middle", "middle"), demand_rps=20.0)
    assert margin.memory["stage"] == MODELS


def test_a_fleet_that_left_reuse_routes_by_the_classes_of_models() -> None:
    away = {"stage": MODELS, "since_ms": -1}
    heavy = []  # share of the hardest class that middle has to take
    for easy in (0.1, 0.9):
        classes = {"reuse": PAST, "models": {"light": easy, "heavy": 1 - easy}}
        draft = reusing(SLOW, away, demand_rps=30.0, classes=classes)
        assert draft.strategy == "models"
        heavy.append(rows(draft)["heavy"].get("middle", 0.0))
    assert heavy[0] > heavy[1], heavy


def test_a_store_that_recovered_brings_reuse_back_once_all_hold_the_large_model() -> None:
    away = {"stage": MODELS, "since_ms": -1}
    small = ("middle", "middle", "light", "light")
    waiting = reusing(GOOD, away, small)
    assert waiting.memory == {"stage": MODELS, "since_ms": NOW_MS, "plans": 1}
    for later_s in (5, 10):
        waiting = reusing(GOOD, waiting.memory, small, now_ms=NOW_MS + 1000 * later_s)
        assert waiting.memory["stage"] == MODELS
    back = reusing(GOOD, waiting.memory, small, now_ms=NOW_MS + 15_000)
    assert (back.strategy, back.memory["stage"]) == ("models", RETURNING)
    assert Counter(back.allocation.values())["heavy"] == 2
    homes = tuple(back.allocation.values())
    there = tuple(reusing(GOOD, back.memory, homes).allocation.values())
    assert set(there) == {"heavy"}
    last = reusing(GOOD, back.memory, there)
    assert last.memory["stage"] == REUSE
    assert reusing(GOOD, last.memory, there).strategy == "reuse"


def test_without_the_switch_a_dead_store_changes_nothing() -> None:
    seen = an_observation(4, demand_rps=60, classes={"reuse": PAST}, reuse=NO_ANSWER)
    assert plan(seen, a_reuse_ladder(), {}, {"switch": 0}).strategy == "reuse"
    assert plan(seen, a_reuse_ladder(), {}, {}).strategy == "models"
    assert plan(seen, a_reuse_ladder(), {}, {"reuse": 0}).memory == {}


def test_as_published_any_neighbour_will_do_and_every_image_is_stored() -> None:
    reuse = reusing(GOOD, {}).reuse
    assert [(floor.similarity, floor.share) for floor in reuse.floors] == [(-1.0, 20 / 25)]
    assert (reuse.guard, reuse.check) == (None, None)
    assert reuse.storage.share == 1.0


def test_guarded_it_takes_the_profile_s_floors_and_guard_and_the_catalog_s_check() -> None:
    floors, guard = (ReuseFloor(similarity=0.9, share=0.8),), ReuseGuard(equal=0.8)
    rows = (Neighbours(0.96, 0.5, {"equal": 0.4, "colour": 0.6}),)
    profile = a_reuse_profile(neighbours=rows, floors=floors, guard=guard)
    draft = plan(an_observation(4), a_reuse_ladder(reuse_profile=profile), {}, {"guarded": 1})
    assert (draft.reuse.floors, draft.reuse.guard) == (floors, guard)
    assert draft.reuse.check.discriminator == "look"
    assert draft.reuse.hits == pytest.approx({"heavy~k20": 0.2}), "the level on which the floors were tested"


@pytest.mark.parametrize(
    ("profile", "parameters", "reason"),
    [
        (None, {}, "catalog has no profile of reuse"),
        (a_reuse_profile(), {"guarded": 1}, "profile of reuse has no floors and guard"),
    ],
)
def test_what_nobody_measured_is_not_reused_and_the_reason_says_so(
    profile: ReuseProfile | None, parameters: dict[str, float], reason: str
) -> None:
    draft = plan(an_observation(4), a_reuse_ladder(reuse_profile=profile), {}, parameters)
    assert (draft.strategy, draft.reuse) == ("models", None)
    assert f"nothing is reused, as the {reason}" in draft.reason


def test_a_level_costs_and_is_worth_its_hits_and_its_misses() -> None:
    half = a_reuse_profile(neighbours=(Neighbours(0.96, 0.5),))
    for demand, quality in ((20 / (1 - 0.5 * 0.8), 1 - 0.5 * 0.1), (20 / (1 - 0.5 * 0.4), 1 - 0.5 * 0.03)):
        seen = an_observation(4, demand_rps=demand, classes={"reuse": PAST})
        draft = plan(seen, a_reuse_ladder(reuse_profile=half), {}, {"overprovision": 1})
        assert draft.expected.utilization == pytest.approx(1, rel=1e-3), "four workers carry as many, misses included"
        assert draft.expected.quality == pytest.approx(quality, abs=0.005)
        assert sustainable_rps(draft, seen, a_reuse_ladder(reuse_profile=half)) == pytest.approx(demand, rel=1e-3)


def test_more_than_all_hits_can_carry_is_said_to_be_saturated() -> None:
    half = a_reuse_profile(neighbours=(Neighbours(0.96, 0.5),))
    draft = plan(an_observation(4, demand_rps=100), a_reuse_ladder(reuse_profile=half), {}, {"overprovision": 1})
    assert set(draft.routes[-1].levels) == {"heavy~k20"}
    assert "saturated: 33% carried, 12 workers would carry all" in draft.reason


def test_while_the_fleet_is_away_the_plan_still_asks_for_lookups_in_the_background() -> None:
    away = reusing(NO_ANSWER, {"stage": MODELS, "since_ms": -1}, ("light",) * 4)
    assert away.strategy == "models"
    assert away.reuse == reusing(GOOD, {}).reuse
    assert not any("~" in level for route in away.routes for level in route.levels)


def test_a_lookup_that_seldom_hits_is_sooner_too_slow() -> None:
    """20 ms are little of the 120 ms that a hit saves in the mean, but not where one in ten hits."""
    rare = a_reuse_profile(neighbours=(Neighbours(0.96, 0.1),))
    seen = an_observation(4, reuse=lookups(20.0))
    assert plan(seen, a_reuse_ladder(), {}, {}).memory["stage"] == REUSE
    assert plan(seen, a_reuse_ladder(reuse_profile=rare), {}, {}).memory["stage"] == LEAVING

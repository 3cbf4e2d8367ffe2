"""Reuse levels, and the staged switch between strategies, plan by plan."""

import math
from collections import Counter

import pytest

from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.validity import check
from planner.policies.argus import plan
from planner.solvers.levels.strategy_switch import LEAVING, MODELS, RETURNING, REUSE
from tests.builders import NOW_MS, a_worker, an_observation
from tests.planner.solvers.levels.builders import a_reuse_ladder

PAST = {"heavy~k20": 0.5, "heavy~k10": 0.3, "heavy": 0.2}


def reusing(
    retrieval_ms: float | None, memory: dict, homes: tuple[str, ...] = ("heavy",) * 4, **changes: object
) -> PlanProposal:
    workers = tuple(a_worker(f"w-{i}", variant) for i, variant in enumerate(homes))
    values = {"demand_rps": 60.0, "classes": {"reuse": PAST}, "workers": workers, "retrieval_ms": retrieval_ms}
    draft = plan(an_observation(**(values | changes)), a_reuse_ladder(), memory, {"overprovision": 1})
    check(publish(draft, None, "argus", NOW_MS), a_reuse_ladder())
    return draft


def rows(draft: PlanProposal) -> dict[str, dict[str, float]]:
    return {route.label: route.levels for route in draft.routes}


def test_with_reuse_levels_all_workers_keep_the_large_model_and_routes_go_to_steps() -> None:
    draft = reusing(10.0, {})
    assert draft.strategy == "reuse"
    assert set(draft.allocation.values()) == set(draft.batch) == {"heavy"}
    assert set(rows(draft)) == {"", "heavy", "heavy~k10", "heavy~k20"}
    work = sum(60 * rows(draft)[""].get(level, 0) / rps for level, rps in (("heavy", 5), ("heavy~k10", 25 / 3)))
    assert work + 60 * rows(draft)[""]["heavy~k20"] / 25 == pytest.approx(4, rel=1e-4)
    assert draft.expected.utilization == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("retrieval_ms", [90.0, math.inf])
def test_a_slow_or_silent_store_is_left_in_the_next_plan_in_stages_without_routes_to_what_is_not_ready(
    retrieval_ms: float,
) -> None:
    first = reusing(retrieval_ms, reusing(10.0, {}).memory)
    assert (first.strategy, first.memory["stage"]) == ("models", LEAVING)
    assert set(rows(first)[""]) == {"heavy"}, "in full on the large model at once"
    assert 0 < sum(v != "heavy" for v in first.allocation.values()) <= 2, "half of the workers at most are under way"
    assert "leaving reuse" in first.reason
    half = tuple(first.allocation.values())
    second = reusing(retrieval_ms, first.memory, half)
    assert set(rows(second)[""]) <= set(half)
    assert set(rows(second)[""]) != {"heavy"}, "smaller models take part as soon as they are ready"
    there = tuple(second.allocation.values())
    third = reusing(retrieval_ms, second.memory, there)
    assert third.memory["stage"] == MODELS
    assert tuple(third.allocation.values()) == there
    assert reusing(retrieval_ms, third.memory, there).strategy == "models"


def test_on_the_way_to_models_the_solver_takes_a_margin_for_the_smaller_ones() -> None:
    draft = reusing(90.0, {"stage": LEAVING, "since_ms": -1}, ("light",) * 4, demand_rps=20.0)
    settled = reusing(90.0, {"stage": MODELS, "since_ms": -1}, ("light",) * 4, demand_rps=20.0)
    assert set(settled.allocation.values()) == {"heavy"}  # four carry 20/s, not 1.5 times that
    assert draft.memory["stage"] == LEAVING
    margin = reusing(90.0, {"stage": LEAVING, "since_ms": -1}, ("heavy", "heavy", "middle", "middle"), demand_rps=20.0)
    assert margin.memory["stage"] == MODELS


def test_a_fleet_that_left_reuse_routes_by_the_classes_of_models() -> None:
    away = {"stage": MODELS, "since_ms": -1}
    heavy = []  # share of the hardest class that middle has to take
    for easy in (0.1, 0.9):
        classes = {"reuse": PAST, "models": {"light": easy, "heavy": 1 - easy}}
        draft = reusing(90.0, away, demand_rps=30.0, classes=classes)
        assert draft.strategy == "models"
        heavy.append(rows(draft)["heavy"].get("middle", 0.0))
    assert heavy[0] > heavy[1], heavy


def test_a_store_that_recovered_brings_reuse_back_once_all_hold_the_large_model() -> None:
    away = {"stage": MODELS, "since_ms": -1}
    small = ("middle", "middle", "light", "light")
    waiting = reusing(10.0, away, small)
    assert waiting.memory == {"stage": MODELS, "since_ms": NOW_MS}
    back = reusing(10.0, waiting.memory, small, now_ms=NOW_MS + 15_000)
    assert (back.strategy, back.memory["stage"]) == ("models", RETURNING)
    assert Counter(back.allocation.values())["heavy"] == 2
    homes = tuple(back.allocation.values())
    there = tuple(reusing(10.0, back.memory, homes).allocation.values())
    assert set(there) == {"heavy"}
    last = reusing(10.0, back.memory, there)
    assert last.memory["stage"] == REUSE
    assert reusing(10.0, last.memory, there).strategy == "reuse"


def test_without_the_switch_a_dead_store_changes_nothing() -> None:
    seen = an_observation(4, demand_rps=60, classes={"reuse": PAST}, retrieval_ms=math.inf)
    assert plan(seen, a_reuse_ladder(), {}, {"switch": 0}).strategy == "reuse"
    assert plan(seen, a_reuse_ladder(), {}, {}).strategy == "models"
    assert plan(seen, a_reuse_ladder(), {}, {"reuse": 0}).memory == {}

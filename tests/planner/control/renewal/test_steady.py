"""A policy that plans on changes is asked again once demand or fleet differ by more than chance, else at most a minute
later."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from planner.catalog.model import Catalog
from planner.control.planning import Order, PlannerLogic
from planner.control.proposal import OURS, PlanProposal, PolicyOnTerms
from planner.control.renewal.steady import REST_MS, is_steady, solved_for
from planner.observation.components import ObservedComponents, ObservedDemand
from planner.observation.needs import Need
from planner.observation.observation import Observation, Served
from planner.observation.reuse import ObservedReuse
from planner.observation.workers import ReceivedHeartbeat
from planner.policies import named
from schemas.messages import Expected
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, a_worker, an_observation
from tests.planner.control.test_planning import PERIOD_MS, Plans

RPS = 4
CALM = an_observation(
    0, demand_rps=RPS, counts=(RPS,) * 60, slo_ms=1000.0, workers=(a_worker("w-1", "light", allocated="light"),),
    in_force=a_plan(created_ms=NOW_MS - 600_000),
)  # fmt: skip
MADE_FOR = solved_for(CALM, 1, Expected(demand_rps=RPS, utilization=0.3, heavy_share=0.0))


def later(seconds: int = 5, **changes: Any) -> Observation:
    return dataclasses.replace(CALM, now_ms=NOW_MS + 1000 * seconds, **changes)


def test_arrivals_that_differ_by_chance_are_no_change_and_a_jump_or_an_end_of_them_is() -> None:
    assert is_steady(MADE_FOR, later(30))
    assert is_steady(MADE_FOR, later(counts=(RPS,) * 55 + (6, 2, 7, 5, 6)))
    assert not is_steady(MADE_FOR, later(counts=(RPS,) * 55 + (8,) * 5))
    assert not is_steady(MADE_FOR, later(counts=(RPS,) * 55 + (0,) * 5))
    assert not is_steady(MADE_FOR, later(40, counts=(RPS,) * 20 + (6,) * 40)), "a slow rise shows over a longer time"
    assert not is_steady(MADE_FOR, later(40, counts=(RPS,) * 55 + (8,) * 5)), "a late jump shows in the last seconds"


@pytest.mark.parametrize(
    "changes",
    [
        {"workers": (a_worker("w-1", "light", state="loading", allocated="light"),)},
        {"workers": (*CALM.workers, a_worker("w-2", "light", allocated="light"))},
        {"workers": (a_worker("w-1", "light", allocated="light", remaining_ms=200.0),)},
        {"served": Served(50, 0.9)},
        {"unserved": {"heavy": 1.0}},
        {"needs": (Need(("heavy",), 0.1, {"": 0.1}, 1, NOW_MS, NOW_MS),)},
        {"reuse": ObservedReuse(lookups=10, unanswered=0.5)},
        {"components": ObservedComponents(demand={"light": ObservedDemand(rps=1.0)})},
        {"counts": (RPS,) * 4},
        {"in_force": a_plan(created_ms=NOW_MS)},
    ],
    ids=["loads", "joined", "backlog", "late", "unserved", "named", "lookups", "components", "unknown", "new plan"],
)
def test_any_other_change_calls_for_a_solution(changes: dict[str, Any]) -> None:
    assert is_steady(MADE_FOR, later())
    assert not is_steady(MADE_FOR, later(**changes))


def test_no_plan_rests_for_longer_than_a_minute_or_while_its_workers_have_little_room() -> None:
    assert is_steady(MADE_FOR, later(REST_MS // 1000))
    assert not is_steady(MADE_FOR, later(REST_MS // 1000 + 1))
    assert not is_steady(MADE_FOR, later(0)), "nor is a clock relied on that was set back"
    assert not is_steady(MADE_FOR._replace(utilization=0.7), later())
    assert not is_steady(solved_for(CALM, 1, None), later())


@pytest.mark.parametrize(("on_change", "solutions"), [(True, [1, 0, 0, 1]), (False, [1, 1, 1, 1])])
def test_a_planner_keeps_the_plan_in_force_unasked_while_nothing_has_changed(
    solutions: list[int], *, on_change: bool
) -> None:
    asked: list[int] = []

    def plan(seen: Observation, catalog: Catalog, memory: Mapping[str, Any], numbers: Mapping[str, float]) -> Any:
        asked.append(seen.now_ms)
        proposal: PlanProposal = named("clipper-light")(seen, catalog, memory, numbers)
        return proposal

    policy = PolicyOnTerms(plan, OURS._replace(on_change=on_change))
    logic = PlannerLogic(a_catalog(), lambda _: policy, Order("p"), period_ms=PERIOD_MS, silent_ms=3000)
    first = logic.decide(CALM, Plans()).plan
    assert first is not None
    kept = dataclasses.replace(first, created_ms=NOW_MS - 600_000)
    found = []
    for period in range(4):
        seen = later(5 * period, in_force=kept, counts=(RPS,) * 55 + ((RPS,) * 5 if period < 3 else (9,) * 5))
        beats = {"w-1": ReceivedHeartbeat(a_heartbeat(partitions=()), seen.now_ms)}
        assert logic.due(seen.now_ms, beats, Plans(kept, newest=kept.version))
        before = len(asked)
        assert logic.decide(seen, Plans(kept, newest=kept.version)).plan is None
        found.append(len(asked) - before)
    assert found == solutions

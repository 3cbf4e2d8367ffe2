"""When the simulated planner looks, what it sees, and from when on its plan is obeyed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.policies import POLICIES
from replay.simulation.draws.hop_latencies import HopLatencies, whole
from replay.simulation.setup import PlanningTime, Timing
from schemas.messages import Route, Status
from tests.replay.simulation.runs import a_setup, down, ran

TRACE = np.arange(0.0, 40_000.0, 100.0)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Observation]:
    """What a policy is shown that has all generated light before 12 s, and heavy from then on."""
    looks: list[Observation] = []

    def plan(
        at: Observation, _catalog: Catalog, _memory: Mapping[str, Any], _parameters: Mapping[str, float]
    ) -> PlanProposal:
        looks.append(at)
        level = "light" if at.now_ms < 12_000 else "heavy"
        allocation = {worker.worker_id: "light" if n % 2 else "heavy" for n, worker in enumerate(at.workers)}
        return PlanProposal(routes=(Route(levels={level: 1.0}),), allocation=allocation, batch={}, reason="test")

    monkeypatch.setitem(POLICIES, "watching", plan)
    return looks


def test_a_planner_that_is_told_when_to_look_looks_then_and_never_else(seen: list[Observation]) -> None:
    ran(a_setup(policy="watching", looks=(PlanningTime(3000.0), PlanningTime(8111.0), PlanningTime(13_300.0))), TRACE)
    assert [look.now_ms for look in seen] == [-1000, 3000, 8111, 13_300]


def test_a_plan_is_obeyed_when_it_was_solved_and_written(seen: list[Observation]) -> None:
    heavy_from_ms = []
    for drawn_ms, known_ms in ((0.0, None), (700.0, None), (0.0, 300.0)):
        timing = Timing(hops=HopLatencies(plan=whole([(0.0, drawn_ms)])))
        run = ran(a_setup(policy="watching", looks=(PlanningTime(13_000.0, known_ms),), timing=timing), TRACE)
        heavy_from_ms.append(100 * run.tally.levels["light"])
    assert seen[-1].now_ms == 13_000
    assert heavy_from_ms == pytest.approx([13_000, 13_700, 13_300], abs=100)


def test_requests_that_are_being_classified_are_not_seen_yet(seen: list[Observation]) -> None:
    timing = Timing(hops=HopLatencies(arrive=whole([(0.0, 450.0)])))
    ran(a_setup(policy="watching", looks=(PlanningTime(10_000.0),), is_cold=True, timing=timing), TRACE)
    assert seen[-1].counts[-3:] == (10, 10, 5), "one each 100 ms, those of the last 450 ms unknown"


def test_what_others_asked_for_before_a_run_counts_for_a_minute(seen: list[Observation]) -> None:
    setup = a_setup(
        policy="watching", looks=(PlanningTime(500.0), PlanningTime(56_000.0)), is_cold=True, before_ms=(-7000, -300)
    )
    ran(setup, np.array([100.0, 70_000.0]))
    assert [sum(look.counts) for look in seen] == [1, 3, 2]


DAY_MS = 86_400_000.0


def test_idle_days_between_requests_cost_no_plans_and_leave_the_period_s_phase(seen: list[Observation]) -> None:
    last_ms = 10 * DAY_MS + 2500.0
    run = ran(a_setup(policy="watching", is_cold=True), np.array([0.0, 100.0, 300_000.0, last_ms]))
    assert run.tally.ends[Status.COMPLETED] == 4
    assert len(seen) < 60, "while a minute's windows empty, twice, and once for each change"
    assert seen[-1].now_ms % 5000 == seen[0].now_ms % 5000
    timeline = run.timeline
    assert sum(timeline.looks[1:-1]) == pytest.approx((timeline.count - 2) * timeline.width_ms / 1000, rel=1e-3)


def test_an_outage_in_a_gap_is_planned_for(seen: list[Observation]) -> None:
    ran(a_setup(policy="watching", is_cold=True, outages=(down(3 * 86_400, "w-0"),)), np.array([0.0, 10 * DAY_MS]))
    assert [len(look.workers) for look in seen if look.now_ms > 2 * DAY_MS][:1] == [3]


def test_after_a_gap_requests_are_served_as_after_a_few_quiet_minutes() -> None:
    one, other = (
        ran(a_setup(policy="joint"), np.concatenate([TRACE, TRACE + gap_ms]))
        for gap_ms in (100_000.0, 100_000.0 + 2 * DAY_MS)
    )
    assert one.tally.ends == other.tally.ends
    assert one.tally.levels == other.tally.levels

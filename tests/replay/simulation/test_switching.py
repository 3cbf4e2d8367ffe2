"""Workers that change variant under a new plan."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.policies import POLICIES
from planner.serving.dispatch.worker import DRAIN_MS
from replay.simulation.setup import Setup, Timing
from schemas.messages import Route, Status
from tests.builders import a_catalog, a_variant
from tests.replay.simulation.runs import a_setup, arrivals, ran

LOAD_MS = 3000.0
SWITCH_S = 9  # plans are made at -1, 4, 9, ... seconds


def plan(
    seen: Observation, _catalog: Catalog, _memory: Mapping[str, Any], _parameters: Mapping[str, float]
) -> PlanProposal:
    """All on light until SWITCH_S, then all on heavy."""
    level = "light" if seen.now_ms < 1000 * SWITCH_S else "heavy"
    return PlanProposal(
        routes=(Route(levels={level: 1.0}),), allocation={w.worker_id: level for w in seen.workers}, batch={},
        reason="test",
    )  # fmt: skip


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    monkeypatch.setitem(POLICIES, "switching", plan)
    heavy = a_variant(name="heavy", steps=25, latency_ms={1: 200.0}, load_ms=LOAD_MS, quality=1.0)
    light = a_variant(latency_ms={1: 100.0})
    catalog = a_catalog(variants={"light": light, "heavy": heavy})
    return a_setup(catalog=catalog, policy="switching", workers=3, drops=False)


def test_a_switch_takes_what_loading_takes(setup: Setup) -> None:
    run = ran(setup, np.array([0.0, 11_900.0]))  # the last of light has left by then
    worst_ms = run.tally.latencies.quantile(1.0)
    loaded_ms = 1000 * SWITCH_S + LOAD_MS + setup.timing.rebalance_ms
    assert run.switches == 3
    assert worst_ms is not None
    assert 11_900 + worst_ms == pytest.approx(loaded_ms + 200, abs=10)


def test_without_the_cost_of_loading_nothing_is_late(setup: Setup) -> None:
    run = ran(dataclasses.replace(setup, timing=Timing(loads=False)), np.arange(0, 20_000, 500.0))
    assert run.switches == 3
    assert run.tally.late == 0


def test_what_lay_in_the_old_topic_is_generated_before_the_last_one_leaves_it(setup: Setup) -> None:
    trace = arrivals(28, 560)  # three workers generate 30 a second on light, 15 on heavy
    tally = ran(setup, trace).tally
    before = int(np.searchsorted(trace, 1000 * SWITCH_S))
    assert tally.open == 0
    lowered = tally.levels["light"] - before  # came just after the plan, when nobody served heavy yet
    assert 0 <= lowered <= 10
    assert tally.levels["heavy"] == 560 - tally.levels["light"]


def test_a_backlog_of_the_old_level_keeps_its_last_worker_no_longer_than_it_may_drain(setup: Setup) -> None:
    run = ran(setup, arrivals(60, 900))  # twice what three workers generate on light: half is left at the switch
    drained_s, switched_s = DRAIN_MS / 1000, run.plans[1].created_ms / 1000
    most = 10 * (3 * switched_s + drained_s)  # each generates 10 a second, and the last to leave goes on for a while
    assert run.tally.ends == {Status.COMPLETED: 900}
    assert run.tally.levels["light"] == pytest.approx(most, rel=0.05)
    assert run.tally.levels["heavy"] == 900 - run.tally.levels["light"]

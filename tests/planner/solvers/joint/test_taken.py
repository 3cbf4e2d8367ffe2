"""Workers that a plan takes from a level for load stay away from it for a while."""

import itertools
from typing import Any

import pytest

from planner.catalog.bands import cascade_table
from planner.catalog.model import Pair
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation, Queue
from planner.policies import joint
from planner.solvers.joint.taken import RETURN_S, barred_levels, memory_of, returns_worker
from schemas.messages import Route
from streams.parsing.catalog import parse
from tests.builders import a_worker
from tests.paths import ROOT

CHAOS = parse((ROOT / "infra" / "catalogs" / "chaos.toml").read_text(), "chaos")
NOW_MS = 1_000_000
BEHIND = (Queue("light", 0, 60.0), Queue("heavy", 600, 5.0))


def seen(*homes: str, now_ms: int = NOW_MS, demand_rps: float = 4.0, **values: Any) -> Observation:
    workers = tuple(a_worker(f"w-{place}", home) for place, home in enumerate(homes))
    return Observation(now_ms=now_ms, demand_rps=demand_rps, workers=workers, **values)


def moved(*to: str) -> PlanProposal:
    allocation = {f"w-{place}": level for place, level in enumerate(to)}
    return PlanProposal(routes=(Route(levels={"light": 1.0}),), allocation=allocation, batch={}, reason="test")


def noted(before: tuple[str, ...], after: tuple[str, ...], memory: dict[str, Any] | None = None) -> dict[str, Any]:
    return memory_of(memory or {}, moved(*after), seen(*before), CHAOS)


def test_a_level_is_barred_for_a_while_once_a_worker_was_taken_from_it_for_a_cheaper_one() -> None:
    memory = noted(("heavy", "heavy"), ("heavy", "light"))
    assert memory == {"taken": {"heavy": NOW_MS // 1000}}
    assert barred_levels(memory, NOW_MS + 1000 * RETURN_S - 1) == {"heavy"}
    assert not barred_levels(memory, NOW_MS + 1000 * RETURN_S)
    assert not barred_levels(memory, NOW_MS - 1000), "the clock was set back"
    assert noted(("heavy", "light"), ("heavy", "light"), memory) == memory, "no move, nothing new to remember"


def test_a_worker_that_left_for_quality_may_be_had_back_at_once() -> None:
    assert noted(("light", "light"), ("light", "heavy")) == {}
    assert noted(("heavy", "light"), ("light", "heavy")) == {}, "two that change places are missed nowhere"


@pytest.mark.parametrize("junk", [{"taken": 3}, {"taken": {"heavy": "soon"}}, {"taken": [1]}, {}])
def test_a_memory_of_another_release_bars_nothing(junk: dict[str, Any]) -> None:
    assert not barred_levels(junk, NOW_MS)


def test_only_a_worker_of_another_level_returns() -> None:
    assert returns_worker(moved("heavy", "heavy"), seen("heavy", "light"), {"heavy"})
    assert not returns_worker(moved("heavy", "light"), seen("heavy", "light"), {"heavy"})
    assert not returns_worker(moved("heavy", "heavy"), seen("heavy", ""), {"heavy"}), "one that is new may come"


def test_joint_returns_no_worker_to_a_level_that_it_has_just_taken_one_from() -> None:
    """Four requests a second leave two light workers idle, and heavy would serve all of them."""

    def at_heavy(memory: dict[str, Any]) -> int:
        draft = joint.plan(seen("heavy", "light", "light"), CHAOS, memory, {})
        return list(draft.allocation.values()).count("heavy")

    assert at_heavy({}) > 1
    assert at_heavy({"taken": {"heavy": NOW_MS // 1000 - RETURN_S + 1}}) <= 1
    assert at_heavy({"taken": {"heavy": NOW_MS // 1000 - RETURN_S}}) > 1


@pytest.mark.parametrize(("demand_rps", "slo_s"), [*itertools.product((20.0, 60.0), (0.0, 0.6))])
def test_joint_does_not_escalate_everything_while_a_level_is_overfull(demand_rps: float, slo_s: float) -> None:
    """Otherwise the program's threshold of .999 stays, with 1.2 and 3.6 times what heavy carries."""
    full = seen("light", "light", "heavy", demand_rps=demand_rps, slo_ms=1000 * slo_s, queues=BEHIND)
    draft = joint.plan(full, CHAOS, {}, {})
    assert draft.expected is not None
    assert draft.expected.utilization > 1
    for cascade in draft.cascades:
        table = cascade_table(CHAOS, Pair(cascade.level, cascade.next_level, cascade.discriminator), full)
        deferred = [row[sum(known < cascade.threshold for known in table.thresholds) - 1] for row in table.deferred]
        assert max(deferred) < 0.9

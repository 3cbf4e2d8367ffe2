"""Workers that hold several models, or load one beside serving."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.policies import POLICIES
from replay.simulation.run import Ran
from replay.simulation.setup import Residency, Timing
from schemas.errors import PochadeError
from schemas.messages import Route
from tests.builders import a_catalog, a_variant
from tests.replay.simulation.runs import a_setup, ran

LOAD_MS = 3000.0
CALL_MS = 100.0
TRACE = np.arange(0.0, 40_000.0, 30.0)  # two of six workers that take CALL_MS are too few for a level
SWITCHES_S = (9, 19, 29)  # four of six to heavy, to light again, to heavy again


def plan(
    seen: Observation, _catalog: Any, _memory: Mapping[str, Any], _parameters: Mapping[str, float]
) -> PlanProposal:
    turns = sum(seen.now_ms >= 1000 * at_s for at_s in SWITCHES_S)
    level = ("light", "heavy")[turns % 2]
    levels = dict(zip((worker.worker_id for worker in seen.workers), ("light", "heavy", *[level] * 4), strict=True))
    return PlanProposal(
        routes=(Route(levels={"light": 0.5, "heavy": 0.5}),), allocation=levels, batch={},
        reason="test",
    )  # fmt: skip


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """A run under a policy that moves four workers to and fro; both levels take CALL_MS, and loading LOAD_MS."""
    monkeypatch.setitem(POLICIES, "switching", plan)
    variants = {
        name: a_variant(name=name, latency_ms={1: CALL_MS}, load_ms=LOAD_MS, quality=quality)
        for name, quality in (("light", 0.8), ("heavy", 1.0))
    }

    def run(**residency: Any) -> Ran:
        timing = Timing(residency=Residency(**residency))
        setup = a_setup(catalog=a_catalog(variants=variants), policy="switching", workers=6, drops=False, timing=timing)
        return ran(setup, TRACE)

    return run


def late(run: Ran) -> int:
    """Requests that waited for longer than two calls."""
    return sum(count for place, count in run.tally.latencies.counts.items() if 1.002**place > 3 * CALL_MS)


def test_a_worker_that_holds_both_models_changes_between_them_without_loading(served: Callable[..., Ran]) -> None:
    both = served(models=2, preloaded=("light", "heavy"))
    assert both.switches == 12
    assert late(both) < 0.85 * late(served())


def test_a_model_that_a_worker_loaded_before_is_not_loaded_again(served: Callable[..., Ran]) -> None:
    one, two, preloaded = served(), served(models=2), served(models=2, preloaded=("light", "heavy"))
    assert late(preloaded) < late(two) < late(one)


def test_a_worker_that_loads_beside_serving_goes_on_serving_more_slowly(served: Callable[..., Ran]) -> None:
    blocked, beside, slow = served(models=2), served(models=2, beside_factor=1.2), served(models=2, beside_factor=3.0)
    assert beside.switches == 12
    assert late(beside) < late(blocked)
    assert slow.busy_ms > beside.busy_ms > served(models=2, preloaded=("light", "heavy")).busy_ms


def test_what_is_preloaded_must_have_room() -> None:
    with pytest.raises(PochadeError, match="must hold 2 models"):
        Residency(models=1, preloaded=("light", "heavy"))
    with pytest.raises(PochadeError, match="must hold 2 models"):
        Residency(models=1, beside_factor=1.5)

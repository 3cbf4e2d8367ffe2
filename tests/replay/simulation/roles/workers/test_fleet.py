import numpy as np
import pytest

from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.policies import POLICIES
from replay.simulation.draws.run_times import Variation
from replay.simulation.results.figures import figures_of
from replay.simulation.run import Simulation
from replay.simulation.setup import Setup
from replay.traces.rates import POISSON, within
from schemas.messages import Route
from streams.catalogs import measured

FIXED, LEAVES_MS = "random-split", 60_000  # the name that the plans stand under; when the second of them is made


def test_the_last_worker_of_a_level_leaves_though_all_that_still_waits_for_it_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variation = Variation(run_cv={"sdxl": {1: 0.6}})  # so that what waits is late though it was let in
    setup = Setup(
        catalog=measured("argus-a100"), policy=FIXED, workers=2, slo_ms=15_000, seed=0, variation=variation
    )  # fmt: skip

    def plan(seen: Observation, *_: object) -> PlanProposal:
        levels = ("sdxl" if seen.now_ms <= LEAVES_MS else "tiny-sd", "tiny-sd")
        return PlanProposal(
            routes=(Route(levels={levels[0]: 1.0}),), allocation=dict(zip(setup.worker_ids(), levels, strict=True)),
            batch=dict.fromkeys(levels, 1), reason="fixed",
        )  # fmt: skip

    monkeypatch.setitem(POLICIES, FIXED, plan)
    rates = np.concatenate([np.full(60, 2.0), np.full(120, 0.7)])
    assert figures_of(Simulation(setup, within(rates, 1.0, POISSON, 0)).run())["switches"] == 1

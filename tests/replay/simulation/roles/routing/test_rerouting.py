"""A variant loses its last worker: what waits for it goes to those who serve, by the rule of the live router."""

from typing import Any

import numpy as np
import pytest

from planner.serving.routing.reroute import POLL_MS
from replay.simulation.run import Ran
from replay.simulation.session import simulate
from replay.traces.trace import Overrides
from schemas.messages import GenerateOptions, Status
from tests.replay.simulation.runs import a_setup, arrivals, asking, down, ran, timed, up

LONG: dict[str, Any] = {"slo_ms": 60_000.0, "workers": 2, "policy": "random-split", "parameters": {"heavy_share": 0.5}}


def heavy_worker(setup_of: dict[str, Any]) -> str:
    """Who has the dear level, by the first plan of an undisturbed run."""
    plan = ran(a_setup(**setup_of), arrivals(2, 10)).plans[0]
    return next(worker for worker, variant in plan.allocation.items() if variant == "heavy")


def lost(trace: Any, *outages: Any, **changes: Any) -> Ran:
    return simulate(a_setup(**LONG, outages=outages, **changes), trace, 1, lambda _requests: None)[0]


def test_what_waits_for_a_level_that_nobody_serves_any_more_is_generated_on_another_one() -> None:
    gone = heavy_worker(LONG)
    run = lost(timed(arrivals(4, 400)), down(30, gone))
    assert run.tally.ends == {Status.COMPLETED: 400}
    assert run.tally.late == 0
    latest_ms = run.tally.latencies.quantile(1.0)
    assert latest_ms is not None
    assert 3000 < latest_ms < 6000 + POLL_MS + 2000  # its session ends after 6 s, then somebody looks


def test_requests_that_name_their_model_are_served_by_it_though_its_last_worker_is_gone() -> None:
    gone = heavy_worker(LONG)
    named = asking(np.arange(60) * 1000.0, [Overrides(options=GenerateOptions(model="heavy"))])
    for changes in ([down(30, gone)], [down(30, gone), up(50, gone)]):
        run = lost(named, *changes, drops=False)
        assert run.tally.levels.keys() <= {"heavy"}
        assert run.tally.ends == {Status.COMPLETED: 60}


@pytest.mark.parametrize("drops", [True, False])
def test_every_request_ends_once_however_workers_come_and_go(drops: bool) -> None:
    outages = [change for n in range(4) for change in (down(10 + 20 * n, f"w-{n % 2}"), up(22 + 20 * n, f"w-{n % 2}"))]
    changes: dict[str, Any] = {"policy": "diffserve-static", "parameters": {"threshold": 0.6}}
    setup = a_setup(**LONG | changes, drops=drops, outages=tuple(outages))
    tally = ran(setup, arrivals(6, 600)).tally
    assert tally.ends.total() == 600
    assert tally.open == 0

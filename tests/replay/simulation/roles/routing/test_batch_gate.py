"""The simulated batch gate and the live one drive one `BatchGate`: as many requests pass."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents.classifier import batch_gate
from agents.classifier.role import Classifier
from planner.serving.admission.batch_gate import BatchGate
from planner.serving.dispatch.worker_loads import LoadView
from replay.simulation.event_queue import EventQueue
from replay.simulation.job import Job
from replay.simulation.overrides import metrics_for
from replay.simulation.roles.control.plan_state import PlanState
from replay.simulation.roles.ledger import Ledger
from replay.simulation.roles.routing.batch_gate import BatchClassifier
from replay.simulation.roles.workers.heartbeats import Heartbeats
from replay.simulation.setup import Timing
from replay.simulation.times import CallTimes
from schemas.messages import Heartbeat
from streams.settings import Requests
from tests.agents.classifier.test_role import Judge
from tests.agents.stubs import StubFleet, a_record
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_request, owned

REQUESTS = 6  # that arrive at once
CATALOG = a_catalog()  # light takes 20 ms, heavy 200
WORKERS = st.lists(
    st.tuples(st.sampled_from(["light", "heavy"]), st.sampled_from([0, 0, 0, 0, 10, 20, 21, 150, 300])), max_size=6
)
Loads = list[tuple[str, int]]
"""Variant of each worker, and the work before it in ms."""


class Shut(Exception):
    """The gate is asked again only later."""


def beats(loads: Loads) -> list[Heartbeat]:
    return [
        a_heartbeat(worker_id=f"w-{number}", variant=variant, partitions=(owned(number, 0, ms),))
        for number, (variant, ms) in enumerate(loads)
    ]


def live(loads: Loads, gate: BatchGate) -> int:
    """Requests that pass while the clock stands still."""
    fleet = StubFleet()
    for beat in beats(loads):
        fleet.receive(beat, NOW_MS)
    classifier = Classifier(Judge(), CATALOG, Requests())
    role = batch_gate.BatchClassifier(classifier, CATALOG, fleet, set(), gate=gate)

    async def pass_through() -> int:
        for number in range(REQUESTS):
            request_id = f"r-{number}"
            try:
                await role.on_record(a_record(a_request(request_id=request_id, tier="batch"), key=request_id.encode()))
            except Shut:
                return number
        return REQUESTS

    asked_again = mock.AsyncMock(side_effect=Shut)
    with (
        mock.patch.object(batch_gate, "now_ms", return_value=NOW_MS),
        mock.patch.object(batch_gate.asyncio, "sleep", asked_again),
    ):
        return asyncio.run(pass_through())


class Fed(BatchClassifier):
    """Receives the heartbeats that a test names."""

    @property
    def view(self) -> LoadView:
        return self._view


def simulated(loads: Loads, gate: BatchGate) -> int:
    """Requests that pass while the clock stands still."""
    events, timing, times = EventQueue(0.0), Timing(), CallTimes(CATALOG)
    heartbeats, tally = Heartbeats(events, timing, times), metrics_for(None, 1000.0, np.zeros(REQUESTS))
    ledger = Ledger(events, PlanState(CATALOG), tally, timing.grace_ms)
    role = Fed(events, heartbeats, timing, times, CATALOG, ledger, gate)
    for beat in beats(loads):
        role.view.on_heartbeat(beat, 0.0)
    passed: list[Job] = []
    role.on_passed = passed.append
    draws: Any = None
    for number in range(REQUESTS):
        role.take(Job(number, f"r-{number}", 0.0, None, draws, 0))
    return len(passed)


@settings(max_examples=100, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True)
@given(WORKERS)
def test_live_role_and_simulation_let_as_many_pass(loads: Loads) -> None:
    assert simulated(loads, BatchGate()) == live(loads, BatchGate())


class Open(BatchGate):
    def may_pass(self, workers: object, now_ms: float) -> bool:
        del workers, now_ms
        return True


@pytest.mark.parametrize("pass_through", [live, simulated])
def test_the_gate_that_is_passed_in_decides(pass_through: Callable[[Loads, BatchGate], int]) -> None:
    loads = [("light", 0), ("light", 0), ("heavy", 300)]
    assert pass_through(loads, BatchGate()) == 0
    assert pass_through(loads[:2], BatchGate()) == 2
    assert pass_through(loads, Open()) == REQUESTS

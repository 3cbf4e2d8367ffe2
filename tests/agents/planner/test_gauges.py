"""The leading planner shows the fleet and its plan's expectations; one that stands by shows nothing of them."""

from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY

from agents.planner.gauges import FleetGauges
from planner.observation.observation import Observation, Served
from planner.observation.workers import ReceivedHeartbeat
from schemas.messages import Expected
from tests.builders import NOW_MS, a_heartbeat, a_plan, owned

SILENT_MS = 3000


def shown(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"pochade_{name}", labels)


def beat(worker: str, state: str, ago_ms: int = 0, work_ms: int = 0) -> tuple[str, ReceivedHeartbeat]:
    heartbeat = a_heartbeat(
        worker_id=worker, state=state, variant="light", partitions=(owned(0, remaining_ms=work_ms),)
    )
    return worker, ReceivedHeartbeat(heartbeat, NOW_MS - ago_ms)


@pytest.fixture
def gauges() -> Iterator[FleetGauges]:
    gauges = FleetGauges(SILENT_MS)
    gauges.leads(True)
    yield gauges
    gauges.leads(False)


def test_workers_are_shown_by_state_and_the_overdue_ones_as_silent(gauges: FleetGauges) -> None:
    fleet = [beat("a", "ready"), beat("b", "painting"), beat("c", "ready", 5000), beat("d", "stopped")]
    gauges.on_heartbeats(dict(fleet), NOW_MS)
    assert [shown("workers", state=state) for state in ("ready", "painting", "silent")] == [1, 1, 1]
    gauges.on_heartbeats(dict(fleet[:1]), NOW_MS)
    assert [shown("workers", state=state) for state in ("ready", "painting", "silent")] == [1, 0, 0]


def test_the_backlog_is_the_work_of_live_workers_in_seconds(gauges: FleetGauges) -> None:
    fleet = [beat("a", "painting", work_ms=1500), beat("b", "ready", work_ms=500), beat("c", "ready", 5000, 9000)]
    gauges.on_heartbeats(dict(fleet), NOW_MS)
    assert (shown("backlog_seconds", variant="light"), shown("serving_workers", variant="light")) == (2.0, 2)


def test_the_busy_share_is_that_of_all_looks_since_the_last_plan(gauges: FleetGauges) -> None:
    for states in (("painting", "painting"), ("painting", "ready"), ("ready", "ready")):
        gauges.on_heartbeats(dict(beat(name, state) for name, state in zip("ab", states, strict=True)), NOW_MS)
    expected = Expected(demand_rps=4.0, utilization=0.7, heavy_share=0.2, quality=0.9)
    seen = Observation(now_ms=NOW_MS, demand_rps=5.0, served=Served(10, 0.8))
    gauges.on_observation(seen, a_plan(expected=expected))
    assert [shown("utilization", of=of) for of in ("seen", "expected")] == [0.5, 0.7]
    assert [shown("demand_rps", of=of) for of in ("seen", "expected")] == [5.0, 4.0]
    assert [shown(name) for name in ("expected_heavy_share", "expected_quality", "in_time_share")] == [0.2, 0.9, 0.8]


def test_a_planner_that_stands_by_shows_zeros(gauges: FleetGauges) -> None:
    gauges.on_heartbeats(dict([beat("a", "ready", work_ms=900)]), NOW_MS)
    gauges.on_observation(Observation(now_ms=NOW_MS, demand_rps=5.0), None)
    assert shown("planner_leads") == 1
    gauges.leads(False)
    assert shown("planner_leads") == 0
    assert [shown("workers", state="ready"), shown("backlog_seconds", variant="light")] == [0, 0]
    assert shown("demand_rps", of="seen") == 0

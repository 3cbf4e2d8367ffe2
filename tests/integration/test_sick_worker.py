"""A worker with a dead device, and a prompt that kills devices, on the real broker: all other requests complete."""

import pathlib

import pytest

from agents.worker.sickness import MAX_FAULTS, FaultHistory
from schemas.messages import Status
from streams.clock import now_ms
from streams.kafka.topics import create_topics
from streams.settings import load
from tests.integration.broken_pipeline import BrokenPipeline

pytestmark = pytest.mark.broker

REQUESTS, RATE = 40, 10.0
KILLER = 15


@pytest.mark.timeout(180)
def test_a_dead_device_costs_no_request_and_a_prompt_that_kills_devices_only_itself(
    broker_home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    kafka = {"prefix": "sick", "session_timeout_ms": 6000}
    settings = load({"home": broker_home, "kafka": kafka, "planner": {"policy": "clipper-heavy"}})
    create_topics(settings, ["light", "heavy"])
    prompts = [f"prompt number {n}" for n in range(REQUESTS)]
    prompts[KILLER] = "!device-dead"
    pipeline = BrokenPipeline(settings, tmp_path, broken={"worker-2": "device-dead:0"})
    history = FaultHistory(broker_home / "workers" / "worker-2.faults")
    for number in range(MAX_FAULTS - 1):
        history.add([f"before-{number}"], "CUDA error", now_ms())
    try:
        pipeline.start()
        served, results = pipeline.serve(prompts, RATE)

        def stays_away() -> bool:
            pipeline.heal()
            beat = pipeline.heartbeats["worker-2"][1]
            return (beat.state, beat.variant) == ("sick", "") and "stays away until" in beat.detail

        pipeline.until(stays_away, "worker-2 stays away")
    finally:
        pipeline.close()
        history.file.unlink(missing_ok=True)
    killer = results.pop(KILLER)
    assert [each.reason for each in results if each.status is not Status.COMPLETED] == []
    assert (killer.status, "ended 2 workers" in killer.reason) == (Status.FAILED, True)
    assert "worker-2" not in served.by
    assert "its device" not in pipeline.heartbeats["worker-1"][1].detail

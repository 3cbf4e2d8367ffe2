"""What `pochade fleet` and `plan shadow` observe of a running pipeline."""

import pytest

from agents.planner import live
from agents.planner.observe import Sources
from planner.observation.observation import Queue
from streams.clock import now_ms
from streams.settings import load
from tests.agents.stubs import StubFleet, StubPlans, a_record
from tests.builders import a_catalog, a_heartbeat, a_plan, owned


def test_a_heartbeat_that_cannot_be_read_is_passed_over_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    beat = a_heartbeat(partitions=(owned(0, 9, 100),))
    fleet, plans, at_ms = StubFleet().receive(beat, now_ms()), StubPlans(a_plan()), now_ms()
    for view, made in (("FollowedFleet", fleet), ("FollowedPlans", plans)):
        for name in ("start", "wait_caught_up", "close"):
            setattr(made, name, lambda: None)
        monkeypatch.setattr(live, view, lambda *_, made=made: made)
    monkeypatch.setattr(Sources, "open", lambda _: None)
    records = [a_record(timestamp_ms=at_ms, value=b"\xff"), a_record(beat, timestamp_ms=at_ms)]
    monkeypatch.setattr(live, "past", lambda *_, **__: records)
    seen = live.observe_once(load({"planner": {"slo_s": 1.0}}), a_catalog())
    assert [worker.worker_id for worker in seen.observation.workers] == ["w-1"]
    assert seen.observation.queues == (Queue("light", 5.0, 0.0),)
    assert "passed over 1 record that cannot be read, the first of them in.v1 0@7: not framed Avro" in caplog.text

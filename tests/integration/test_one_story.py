"""One story, told by Kafka, in simulated time and in one process: the same path, stage by stage.

A draft is rejected. The heavy worker that generates it again dies; the other one comes to the job when its deadline is
too near. So the draft is the answer, nothing is generated twice, and the request ends once.
"""

import asyncio
import json
import pathlib
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

from agents.in_process.deployment import InProcess
from planner.catalog.model import Catalog
from replay.simulation.roles.workers.serving import Serving
from replay.simulation.run import Simulation
from schemas.messages import Event, GenerateRequest, Plan, Result, Status
from schemas.record import Outgoing
from schemas.topics import PLAN, PLAN_KEY
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.parsing.catalog import parse
from streams.settings import Settings, load
from tests.agents.in_process import virtual_time
from tests.builders import a_cascade, a_plan
from tests.integration.pipeline import ROLES, Pipeline
from tests.memory_store import MemoryImageStore
from tests.paths import CATALOGS
from tests.replay.simulation.runs import a_setup

HEAVY_MS, SLACK_MS, DIES_MS = 9000, 12_000, 1000  # after its worker's death a job has no 9 s left
PROFILE = (CATALOGS / "profile.toml").read_text()
TEXT = PROFILE.replace("{ 1 = 200, 2 = 243, 4 = 413, 8 = 763 }", f"{{ 1 = {HEAVY_MS} }}")
ALLOCATION = {"worker-1": "light", "worker-2": "heavy", "worker-3": "heavy"}


class Path(NamedTuple):
    """What became of the request."""

    status: Status
    levels: list[str]  # of its images
    begun: list[str]  # levels whose calls have begun, in order
    reason: str


TOLD = Path(
    Status.COMPLETED, ["light"], ["light", "heavy"],
    "heavy would have finished after deadline_ms; the draft was kept",
)  # fmt: skip


def catalog() -> Catalog:
    return parse(TEXT, "story")


def plan() -> Plan:
    """Light first; no draft is kept."""
    return a_plan(version=1, created_ms=now_ms(), allocation=ALLOCATION, batch={}, cascades=(a_cascade(threshold=1.0),))


def told(status: Status, levels: list[str], begun: list[str], reason: str) -> Path:
    return Path(status, levels, begun, re.sub(r" \d+", "", reason))  # without the moment


def path_of(result: Result, begun: list[str]) -> Path:
    return told(result.status, [stage["level"] for stage in json.loads(result.path)], begun, result.reason)


def test_it_is_told_in_one_process() -> None:
    begun: list[str] = []

    async def story() -> Result:
        async with InProcess(
            load({}), workers=3, catalog=catalog(), store=MemoryImageStore(), plan=plan(), takes_virtual_time=True
        ) as deployment:
            await asyncio.sleep(5)
            deployment.on_event = lambda record: begun.extend(_level_of(record.value))
            request = GenerateRequest(
                request_id="r-1", prompt="a red heart", created_ms=now_ms(), deadline_ms=now_ms() + SLACK_MS
            )
            await deployment.submit(request)
            await asyncio.sleep(DIES_MS / 1000)
            deployment.kill(_busy(deployment))
            return await deployment.result("r-1")

    assert path_of(virtual_time.run(story()), begun) == TOLD


def _level_of(value: bytes | None) -> list[str]:
    event = decode(value, Event)
    return [json.loads(event.detail)["level"]] if event.kind == "started" else []


def _busy(deployment: InProcess) -> str:
    beats = deployment.heartbeats.values()
    (busy,) = [beat.heartbeat.worker_id for beat in beats if beat.heartbeat.state == "painting"]
    return busy


def test_it_is_told_in_simulated_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ends = list[str](), list[tuple[Status, str]]()
    begin, end = Serving._begin_call, Serving._end

    def began(self: Serving, worker: Any, effect: Any) -> None:
        begun.extend(job.level for job in effect.jobs)
        begin(self, worker, effect)
        if begun == ["light", "heavy"]:
            self.events.at(self.events.now_ms + DIES_MS, lambda dead: simulation._fleet.stop(dead.id), worker)

    def ended(self: Serving, worker: Any, effect: Any) -> None:
        ends.append((effect.status, effect.reason))
        end(self, worker, effect)

    monkeypatch.setattr(Serving, "_begin_call", began)
    monkeypatch.setattr(Serving, "_end", ended)
    setup = a_setup(
        catalog=catalog(), policy="diffserve-static", parameters={"threshold": 1.0}, workers=3, slo_ms=float(SLACK_MS)
    )
    simulation = Simulation(setup, np.array([20_000.0]))
    run = simulation.run()
    ((status, reason),) = ends
    assert run.tally.ends == {Status.COMPLETED: 1}
    assert told(status, list(run.tally.levels.elements()), begun, reason) == TOLD


@pytest.mark.broker
def test_it_is_told_by_kafka(settings: Settings, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "story.toml"
    file.write_text(TEXT)
    kafka = settings.kafka.model_copy(update={"session_timeout_ms": 3000})
    own = settings.model_copy(update={"kafka": kafka})
    create_topics(own, ["light", "heavy"])
    roles = {name: roles for name, roles in ROLES.items() if name != "planner"} | {"worker-3": ["worker"]}
    pipeline = Pipeline(own, tmp_path, catalog=str(file), roles=roles)
    try:
        send_all(pipeline.producer, [Outgoing(topic=PLAN, key=PLAN_KEY.encode(), value=encode(plan()))])
        pipeline.start()
        request = {"request_id": "r-1", "prompt": "a red heart", "deadline_ms": now_ms() + SLACK_MS}
        pipeline.write(json.dumps(request).encode())
        pipeline.until(lambda: bool(_generating(pipeline)), "heavy generates")
        pipeline.kill(_generating(pipeline)[0])
        (result,) = pipeline.wait_all(["r-1"])
    finally:
        pipeline.close()
    assert path_of(result, ["light", "heavy"]) == TOLD


def _generating(pipeline: Pipeline) -> list[str]:
    beats = [beat for _, beat in pipeline.heartbeats.values()]
    return [beat.worker_id for beat in beats if (beat.variant, beat.state) == ("heavy", "painting")]

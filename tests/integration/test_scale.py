"""`pochade scale` live: 0 -> 1 -> 2 -> 0 workers under load, supervisor and worker killed, nothing lost or doubled."""

import os
import pathlib
import re
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from schemas.messages import Status, WorkerDevice
from streams.kafka.topics import create_topics
from streams.settings import load
from tests.integration.scaled_pipeline import SUPERVISOR, Scaled, scaled_pipeline
from tests.integration.waiting import ask

pytestmark = pytest.mark.broker

SCALE = (
    "planner.policy=octoai", "planner.period_ms=200", "planner.scale.period_s=0.2", "planner.scale.max_workers=2",
    "planner.scale.start_s=2",
)  # fmt: skip


@pytest.fixture
def scaled(broker_home: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Scaled]:
    settings = load({"home": broker_home, "kafka": {"prefix": "scaled", "session_timeout_ms": 3000}})
    create_topics(settings, ["light", "heavy"])
    with scaled_pipeline(settings, tmp_path, SCALE) as pipeline:
        yield pipeline


def test_workers_come_for_requests_and_go_without_them_whoever_is_killed_meanwhile(scaled: Scaled) -> None:
    assert scaled.workers() == {}
    first = scaled.submit(1)
    assert [result.status for result in scaled.wait_all(first)] == [Status.COMPLETED], "it waited for a worker to start"
    assert list(scaled.workers()) == ["s-1"]

    busy = scaled.submit(100, rate=9.0)  # one worker generates five a second
    scaled.until(lambda: len(scaled.serving()) == 2, "a second worker")
    before = scaled.workers()
    scaled.kill(SUPERVISOR)
    during = scaled.submit(4)
    scaled.start_role(SUPERVISOR)
    scaled.until(lambda: "runs already" in scaled.log(SUPERVISOR), "workers that are taken over")
    assert scaled.workers() == before, "none was ended or started twice"

    scaled.wait_all([*busy, *during])
    scaled.until(lambda: scaled.targets() == 1 and len(scaled.plans[-1][1].allocation) == 1, "one worker fewer wanted")
    leaving = set(before) - set(scaled.plans[-1][1].allocation)
    late = scaled.submit(2)  # too few to want a second worker again, however slow the machine is
    with suppress(ProcessLookupError):
        os.kill(before[leaving.pop()], signal.SIGKILL)
    scaled.wait_all(late)
    scaled.until(lambda: not scaled.targets() and not scaled.workers(), "no worker wanted, and none left")

    again = scaled.submit(1)
    scaled.wait_all(again)
    every = [*first, *busy, *during, *late, *again]
    assert scaled.statuses(every) == {Status.COMPLETED: len(every)}
    assert not scaled.dead_letters
    (address,) = re.findall(r"metrics on (\S+)/livez", scaled.log(SUPERVISOR))[-1:]
    assert 'pochade_scale_events_total{event="drained"}' in ask(f"{address}/metrics")[1], "of the second supervisor"
    assert ask(f"{address}/readyz")[0] == 200


def test_two_cards_have_a_worker_each_both_work_and_their_heartbeats_name_them(
    broker_home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    settings = load({"home": broker_home, "kafka": {"prefix": "cards", "session_timeout_ms": 3000}})
    create_topics(settings, ["light", "heavy"])
    fast = ("planner.period_ms=200", "planner.policy=clipper-light")
    with scaled_pipeline(settings, tmp_path, fast, workers=-1, options=("--devices", "2,5")) as pipeline:
        pipeline.until(lambda: pipeline.serving() == ["s-gpu2", "s-gpu5"], "a worker on each card")
        seen = {name: beat.device for name, (_, beat) in pipeline.heartbeats.items()}
        assert seen == {f"s-gpu{index}": WorkerDevice(device="cuda:0", index=index) for index in (2, 5)}
        results = pipeline.wait_all(pipeline.submit(40))
        assert {result.status for result in results} == {Status.COMPLETED}
        shares = Counter(result.worker_id for result in results)
        assert min(shares["s-gpu2"], shares["s-gpu5"]) >= 10, shares

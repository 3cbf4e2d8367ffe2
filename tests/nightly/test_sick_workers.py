"""One of three workers with a broken device, beside a fleet without it: how 500 requests end, and when."""

import pathlib
from collections.abc import Sequence

import pytest

from schemas.messages import Status
from streams.kafka.topics import create_topics
from streams.settings import load
from tests.integration.broken_pipeline import WORKERS, BrokenPipeline, Served

pytestmark = pytest.mark.broker

REQUESTS, RATE = 500, 7.0  # 47 % of what three workers generate one by one, 70 % of two
KILLERS = 6
BROKEN = ("device-dead:0", "device-dead:20", "nan:0", "out-of-memory:0", "out-of-memory:1")


def measured(
    home: pathlib.Path, name: str, broken: str, prompts: list[str], workers: Sequence[str] = WORKERS
) -> tuple[Served, list[str]]:
    kafka = {"prefix": name, "session_timeout_ms": 6000}
    settings = load({"home": home, "kafka": kafka, "planner": {"policy": "clipper-heavy"}})
    create_topics(settings, ["light", "heavy"])
    logs = home / f"logs-{name}"
    logs.mkdir()
    pipeline = BrokenPipeline(settings, logs, broken={"worker-2": broken} if broken else {}, workers=workers)
    try:
        pipeline.start()
        served, results = pipeline.serve(prompts, RATE)
    finally:
        pipeline.close()
    (home / f"workers-{name}").mkdir()
    for file in (home / "workers").glob("*.faults"):
        file.rename(home / f"workers-{name}" / file.name)  # each run's worker begins with a new device
    print(f"\n{name:20} {broken or 'well':16} {served}")
    return served, [result.reason for result in results if result.status is not Status.COMPLETED]


@pytest.mark.timeout(2400)
def test_no_request_fails_for_a_broken_worker_and_few_are_later(broker_home: pathlib.Path) -> None:
    home, prompts = broker_home, [f"prompt number {n}" for n in range(REQUESTS)]
    well, _ = measured(home, "well", "", prompts)
    measured(home, "two", "", prompts, WORKERS[::2])
    found = {how: measured(home, how.replace(":", "-"), how, prompts) for how in BROKEN}
    for how, (served, reasons) in found.items():
        assert served.statuses == {Status.COMPLETED: REQUESTS}, (how, reasons)
        assert served.p95_ms <= 1.5 * well.p95_ms, (how, served, well)


@pytest.mark.timeout(900)
def test_prompts_that_kill_contexts_fail_alone_and_the_fleet_goes_on(broker_home: pathlib.Path) -> None:
    prompts = [f"prompt number {n}" for n in range(REQUESTS)]
    for number in range(KILLERS):
        prompts[50 + 60 * number] = f"!device-dead {number}"
    served, reasons = measured(broker_home, "killers", "", prompts)
    assert served.statuses == {Status.COMPLETED: REQUESTS - KILLERS, Status.FAILED: KILLERS}, reasons
    assert all("ended 2 workers" in reason for reason in reasons)
    assert set(served.by) == {"worker-1", "worker-2", "worker-3"}

"""A live burst on a fleet that grows from 2 to 8 workers, held against its simulation; and how soon the pool serves.

Workers of the engine `profile` sleep as long as they should, so that two cores carry eight of them. The run is
simulated again with its arrivals, its hop latencies and its planner's moments; the share of requests in time is to be
within 5 points. `TEST_BURST_OUT`: a folder in which the run is left.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
from typing import Any, Final

import pytest

from replay.bench.validation import simulated
from replay.load.record.folder import RunFolder, read_run
from replay.simulation.shipped_latencies import hop_latencies
from replay.traces.shapes import Shape, shaped
from replay.traces.writing import write
from schemas.messages import Heartbeat, Plan
from schemas.topics import FLEET, PLAN, PLAN_KEY
from streams.catalogs import measured
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.kafka.consumers.snapshot import between
from streams.kafka.topics import create_topics
from streams.settings import load
from tests.integration.scaled_pipeline import Scaled, scaled_pipeline
from tests.paths import CATALOGS

pytestmark = pytest.mark.broker

POCHADE: Final = "from streams.cli import main; main(prog_name='pochade')"
OUT: Final = os.environ.get("TEST_BURST_OUT", "")
SPAN_S: Final = 60.0  # of each part: before, burst, after
RUN_MS: Final = 1000  # of an image
WORKERS, MAX_WORKERS, WARM, BUSY, TIMES = 2, 8, 2, 0.6, 6.0
SLO_S: Final = 6.0
START_S: Final = 4.0  # until a forked worker is in the pool: `pochade bench loader`
WANTED_APART, WANTED_TAKEOVER_S = 0.05, 1.5
SETTINGS: Final = (
    "planner.policy=octoai", "planner.period_ms=1000", f"planner.slo_s={SLO_S}", "planner.load_shedding=false",
    "planner.scale.period_s=2", f"planner.scale.max_workers={MAX_WORKERS}", f"planner.scale.warm={WARM}",
    f"planner.scale.start_s={START_S}", f"planner.scale.minimum.heavy={WORKERS}", "worker.engine=profile",
)  # fmt: skip


def slow_catalog(folder: pathlib.Path) -> pathlib.Path:
    """The catalog `profile` with a heavy variant of RUN_MS, so that eight workers ask little of this machine."""
    text = (CATALOGS / "profile.toml").read_text()
    times = "latency_ms = { 1 = 200, 2 = 243, 4 = 413, 8 = 763 }"
    assert times in text
    file = folder / "slow.toml"
    file.write_text(text.replace(times, f"latency_ms = {{ 1 = {RUN_MS} }}"))
    return file


def served(pipeline: Scaled, folder: pathlib.Path) -> RunFolder:
    """Publish the burst to the running pipeline. Its folder stays."""
    folder.mkdir(parents=True, exist_ok=True)
    usual = BUSY * WORKERS * 1000 / RUN_MS
    rates = (usual, TIMES * usual, usual)
    trace = folder / "arrivals.jsonl.gz"
    write(shaped(Shape(name="steps", rates_rps=rates, seconds=3 * SPAN_S), "poisson", 1), trace)
    words = [*pipeline.options, "replay", "run", str(trace), "--name", "burst", "--production"]
    words += ["--slo", str(SLO_S), "--report", str(folder)]
    done = subprocess.run([sys.executable, "-c", POCHADE, *words], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr + pipeline.tails()
    return read_run(folder)


def takeovers_s(pipeline: Scaled) -> list[float]:
    """Of each worker that a plan took from the pool: from that plan to its first heartbeat that serves."""
    ready_in_pool, taken, found = set[str](), dict[str, int](), list[float]()
    records = sorted(between(pipeline.settings, (PLAN, FLEET), 0, now_ms()), key=lambda record: record.timestamp_ms)
    for record in records:
        if record.topic == PLAN and record.key == PLAN_KEY.encode() and record.value:
            allocation = decode(record.value, Plan).allocation
            taken |= dict.fromkeys(ready_in_pool & allocation.keys(), record.timestamp_ms)
            ready_in_pool -= allocation.keys()
        elif record.topic == FLEET and record.value:
            beat = decode(record.value, Heartbeat)
            if beat.variant and beat.state in ("ready", "painting"):
                ready_in_pool.discard(beat.worker_id)
                if beat.worker_id in taken:
                    found.append((record.timestamp_ms - taken.pop(beat.worker_id)) / 1000)
            elif not beat.variant and beat.worker_id not in taken:
                ready_in_pool.add(beat.worker_id)
    return found


def figures(run: RunFolder, catalog: str, pipeline: Scaled) -> dict[str, Any]:
    live = next(iter(run.report["policies"].values()))
    again = simulated(run, measured(catalog), hop_latencies(run.report, by_time=True))
    shares = [1 - each["violation_rate"] for each in again]
    latencies_s = [each["latency_s"]["p95"] for each in again]
    return {
        "requests": live["requests"],
        "in_time": {"live": 1 - live["violation_rate"], "simulated": statistics.median(shares)},
        "simulated_range": [min(shares), max(shares)],
        "p95_s": {
            "live": live["latency_s"]["p95"],
            "simulated": statistics.median(latencies_s),
        },
        "takeovers_s": takeovers_s(pipeline),
        "load_average": os.getloadavg()[0],
    }


@pytest.mark.timeout(1200)
def test_a_live_burst_is_met_as_its_simulation_says_and_the_pool_takes_over_within_1_5_s(
    broker_home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder, catalog = pathlib.Path(OUT) if OUT else tmp_path / "burst", str(slow_catalog(tmp_path))
    changes = {"prefix": "burst", "session_timeout_ms": 3000, "jobs_partitions": MAX_WORKERS}
    settings = load({"home": broker_home, "kafka": changes})
    create_topics(settings, ["light", "heavy"])
    extra = (*SETTINGS, f"kafka.jobs_partitions={MAX_WORKERS}")
    with scaled_pipeline(settings, tmp_path, extra, workers=WORKERS, catalog=catalog) as pipeline:
        pipeline.until(lambda: len(pipeline.serving()) == WORKERS, "the workers that there always are")
        pipeline.until(lambda: len(pipeline.workers()) == WORKERS + WARM, "the pool")
        run = served(pipeline, folder)
        found = figures(run, catalog, pipeline)
    (folder / "burst.json").write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    assert run.report["live"]["lost"] == run.report["live"]["duplicates"] == 0
    assert found["takeovers_s"], "no worker came from the pool"
    assert max(found["takeovers_s"]) <= WANTED_TAKEOVER_S
    assert abs(found["in_time"]["live"] - found["in_time"]["simulated"]) <= WANTED_APART

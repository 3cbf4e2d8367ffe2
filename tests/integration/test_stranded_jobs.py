"""A variant loses its last worker while jobs wait for it: those that do not insist go to a level that is served."""

import json
import pathlib

import pytest

from schemas.messages import Status
from streams.clock import now_ms
from streams.settings import Settings
from tests.integration.pipeline import Pipeline, running_pipeline

pytestmark = pytest.mark.broker

BACKLOG_MS = 3000  # more than the worker works off before it is killed


def backlog_ms(pipeline: Pipeline, worker: str) -> int:
    _, beat = pipeline.heartbeats[worker]
    return sum(owned.remaining_ms for owned in beat.partitions)


def test_jobs_of_a_worker_that_was_the_only_one_of_its_variant_are_generated_by_another(
    settings: Settings, tmp_path: pathlib.Path
) -> None:
    kafka = settings.kafka.model_copy(update={"session_timeout_ms": 3000})
    planner = settings.planner.model_copy(update={"policy": "random-split"})  # half of all to heavy, no cascade
    own = settings.model_copy(update={"kafka": kafka, "planner": planner})
    with running_pipeline(own, tmp_path) as pipeline:
        before = pipeline.plans[-1][1]
        served = {variant: worker for worker, variant in before.allocation.items()}
        pipeline.wait_all(pipeline.submit(1))  # what loads when first used has loaded
        ids = pipeline.submit(160, rate=200)  # more than heavy alone can serve, so that the last worker stays
        asked = {"prompt": "x", "request_id": "insists", "model": "heavy", "deadline_ms": now_ms() + 12_000}
        pipeline.write(json.dumps(asked).encode())
        pipeline.until(lambda: backlog_ms(pipeline, served["heavy"]) > BACKLOG_MS, "jobs that wait for heavy")
        pipeline.kill(served["heavy"])
        results = pipeline.completed(ids)
        moved = [r for r in results if r.level == "light" and (r.plan_version or 0) > before.version]
        assert len(moved) > BACKLOG_MS / 200 / 2
        reported = (tmp_path / "router.log").read_text()
        assert "rerouted orphaned jobs of heavy" in reported
        assert "to light" in reported
        (insisting,) = pipeline.wait_all(["insists"])
        assert (insisting.status, insisting.generate_ms) == (Status.EXPIRED, 0)

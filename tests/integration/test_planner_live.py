"""A running pipeline loses a worker to kill -9: planned without, and nothing is sent to it any more."""

import dataclasses
import json
import pathlib
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from agents.commands.plan import plan as plan_command
from planner.policies import POLICIES
from schemas.messages import GenerateJob
from schemas.record import Incoming, Outgoing
from schemas.topics import PLAN, PLAN_KEY, jobs_topic
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.settings import Settings, load
from tests.integration.pipeline import Pipeline, running_pipeline

pytestmark = pytest.mark.broker

SESSION_MS = 3000
SILENT_MS = 3000


@pytest.fixture(scope="module")
def settings(broker_home: pathlib.Path) -> Settings:
    kafka = {"prefix": "planned", "session_timeout_ms": SESSION_MS}
    return load({"home": broker_home, "catalog": "profile", "kafka": kafka})


@pytest.fixture(scope="module")
def pipeline(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    with running_pipeline(settings, tmp_path_factory.mktemp("logs")) as running:
        yield running


def said(settings: Settings, *arguments: str) -> str:
    done = CliRunner().invoke(plan_command, list(arguments), obj=lambda: settings, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_killed_worker_is_planned_without_within_ten_seconds_and_gets_no_job_after_its_session(
    pipeline: Pipeline, settings: Settings
) -> None:
    sent: list[tuple[int, str]] = []  # (ms, to whom)

    def on_job(record: Incoming) -> None:
        sent.append((record.timestamp_ms, decode(record.value, GenerateJob).worker_id))

    topics = [jobs_topic(variant, 1).name for variant in ("light", "heavy")]
    follower = TopicTailer(settings, topics, on_job).start()
    try:
        pipeline.wait_all(pipeline.submit(10))
        pipeline.kill("worker-2")
        killed_ms = now_ms()
        ids = pipeline.submit(48, rate=6)  # for 8 s, its session and the 3 s in them
        pipeline.until(lambda: "worker-2" not in pipeline.plans[-1][1].allocation, "a plan without it")
        pipeline.until(lambda: sent[-1][0] > killed_ms + SILENT_MS + SESSION_MS, "jobs after its session")
        planned_ms = min(at for at, plan in pipeline.plans if at > killed_ms and "worker-2" not in plan.allocation)
        last_ms = max(at for at, to in sent if to == "worker-2")
        print(
            f"planned without it after {planned_ms - killed_ms} ms, the last job to it after {last_ms - killed_ms} ms"
        )
        assert planned_ms - killed_ms < 10_000
        assert last_ms - killed_ms < SILENT_MS + SESSION_MS
    finally:
        follower.close()
        pipeline.start_role("worker-2")
    pipeline.until(pipeline.is_ready, "a plan with the worker that is back")
    pipeline.wait_all(ids)  # those too that lay before the dead one, alone on its level


def test_a_policy_is_shadowed_and_the_plan_explained_without_anybody_obeying(
    pipeline: Pipeline, settings: Settings, tmp_path: pathlib.Path
) -> None:
    pipeline.wait_all(pipeline.submit(10))
    plans, seen = len(pipeline.plans), tmp_path / "seen.json"
    shadow = json.loads(said(settings, "shadow", "clipper-heavy", "--save", str(seen), "-o", "json"))
    assert shadow["shadow"]["allocation"] == {"heavy": 2}
    assert shadow["in_force"]["version"] == pipeline.plans[-1][1].version
    assert shadow["shadow"]["expected"]["demand_rps"] > 0
    again = json.loads(said(settings, "solve", "--policy", "clipper-heavy", "--observation", str(seen), "-o", "json"))
    assert again["allocation"] == {"heavy": 2}
    reported = json.loads(said(settings, "explain", "-o", "json"))
    assert reported["one_more"]["workers"] == 3
    assert {plan.policy for _, plan in pipeline.plans[plans:]} <= {pipeline.plans[0][1].policy}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_serves(pipeline: Pipeline, settings: Settings, policy: str) -> None:
    said(settings, "pin", policy)
    pipeline.until(lambda: pipeline.plans[-1][1].policy == policy, "the pinned plan")
    pipeline.completed(pipeline.submit(6))


def test_an_operator_rolls_a_plan_back_and_lets_go(pipeline: Pipeline, settings: Settings) -> None:
    before = pipeline.plans[-1][1]
    said(settings, "pin", "clipper-heavy")
    pipeline.until(lambda: pipeline.plans[-1][1].policy == "clipper-heavy", "the pinned plan")
    changes = json.loads(said(settings, "diff", str(before.version), "-o", "json"))["changes"]
    assert {"what": "policy", "before": before.policy, "after": "clipper-heavy"} in changes
    said(settings, "rollback", str(before.version))
    pipeline.until(lambda: pipeline.plans[-1][1].policy == before.policy, "the plan gone back to")
    back = pipeline.plans[-1][1]
    assert (back.routes, back.cascades) == (before.routes, before.cascades)
    assert f"back to plan {before.version}" in said(settings, "show")
    said(settings, "unpin")
    assert str(back.version) in said(settings, "history")


def test_forged_plans_end_no_planning_and_are_overruled(
    pipeline: Pipeline, settings: Settings, producer: KafkaRecordProducer
) -> None:
    """One that is impossible, which is refused, and the highest that is possible, which is obeyed for a moment."""
    own = pipeline.plans[-1][1]
    for version in (2**53, 2**32):
        forged = dataclasses.replace(own, version=version, policy="forged", memory='{"rises": 7}')
        send_all(producer, [Outgoing(topic=PLAN, key=PLAN_KEY.encode(), value=encode(forged))])
    pipeline.until(lambda: pipeline.plans[-1][1].version == 2**32 + 1, "the leader's own plan above it")
    again = pipeline.plans[-1][1]
    assert (again.policy, again.routes, again.allocation) == (own.policy, own.routes, own.allocation)
    said(settings, "pin", "clipper-light")
    assert pipeline.plans[-1][1].policy == "clipper-light"
    pipeline.completed(pipeline.submit(6))
    said(settings, "unpin")

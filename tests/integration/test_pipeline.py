"""The whole pipeline, every role a process, on the real broker: what goes in comes out once, whoever is killed."""

import json
import pathlib
from collections.abc import Iterator

import pytest

from agents.commands.plan import plan as plan_command
from agents.learning.prompts import of_deployment
from agents.runtime.records import job_record
from schemas.messages import GenerateJob, GenerateOptions, Status
from schemas.topics import jobs_topic
from streams.clock import now_ms
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from streams.store.open import open_store
from tests.builders import a_classified, a_request
from tests.integration.pipeline import ROLES, Pipeline, path_of

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def running(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    kafka = {"prefix": "whole", "session_timeout_ms": 3000}
    # a policy whose plan stands still, and under which some of any forty images escalate
    settings = load({"home": broker_home, "kafka": kafka, "planner": {"policy": "diffserve-static"}})
    create_topics(settings, ["light", "heavy"])
    logs, extra = tmp_path_factory.mktemp("logs"), ["worker.engine=chaos"]  # `profile`, but for prompts that break it
    pipeline = Pipeline(settings, logs, extra=extra)
    try:
        yield pipeline.start()
    finally:
        pipeline.close()


@pytest.fixture
def pipeline(running: Pipeline) -> Pipeline:
    """The module's pipeline, whole again after whatever the test before did to it."""
    running.heal()
    running.until(running.is_ready, "all roles back")
    return running


def test_prompts_become_images_and_some_escalate(pipeline: Pipeline) -> None:
    ids = pipeline.submit(40)
    results = pipeline.completed(ids)
    escalated = [r for r in results if r.escalated]
    assert escalated, "with f(t) = t and threshold 0.3 some of 40 must escalate"
    for result in escalated:
        draft, final = path_of(result)
        assert (draft["level"], final["level"], result.level) == ("light", "heavy", "heavy")
        assert float(str(draft["confidence"])) < float(str(draft["threshold"]))
    kept = [r for r in results if not r.escalated]
    told = [(r.request_id, r.level, r.confidence, r.threshold, r.plan_version, r.reason) for r in kept]
    assert all(
        r.confidence is not None and r.threshold is not None and r.confidence >= r.threshold for r in kept
    ), told  # fmt: skip
    store = open_store(pipeline.settings)
    assert all(store.get(r.image_uri or "")[:4] == b"\x89PNG" for r in results)
    assert len({r.image_sha256 for r in results}) == len(results)


def test_a_plain_json_line_of_any_client_ends_in_results(pipeline: Pipeline) -> None:
    pipeline.write(json.dumps({"prompt": "a red heart", "request_id": "json-1"}).encode())
    (result,) = pipeline.wait_all(["json-1"])
    assert (result.status, result.prompt) == (Status.COMPLETED, "a red heart")


def test_what_is_learned_from_are_the_newest_prompts_of_the_deployment_each_once(pipeline: Pipeline) -> None:
    ids = [f"learn-{number}" for number in range(4)]
    for request_id, prompt in zip(ids, ("a cat", "a boat", "a boat", "a lamp"), strict=True):
        pipeline.write(json.dumps({"prompt": prompt, "request_id": request_id}).encode())
    pipeline.completed(ids)
    pipeline.write(b"no request at all")
    found, other = (of_deployment(pipeline.settings, 2, seed) for seed in (1, 2))
    assert set(found.prompts) == {"a boat", "a lamp"}
    assert found.seeds != other.seeds
    assert of_deployment(pipeline.settings, 2, 1) == found, "a run that is repeated finds its images"


@pytest.mark.parametrize("role", list(ROLES))
def test_no_request_is_lost_or_answered_twice_when_a_role_is_killed(pipeline: Pipeline, role: str) -> None:
    ids = pipeline.submit(20)
    pipeline.kill(role)
    pipeline.start_role(role)
    ids += pipeline.submit(20)
    pipeline.completed(ids)


def test_the_same_request_sent_twice_has_one_result(pipeline: Pipeline) -> None:
    for _ in range(3):
        pipeline.write(b'{"prompt": "again", "request_id": "twice"}', b"twice")
    others = pipeline.submit(10)
    again, *_ = pipeline.wait_all(["twice", *others])
    assert (again.status, again.prompt) == (Status.COMPLETED, "again")


@pytest.mark.parametrize(
    ("value", "key", "status", "reason"),
    [
        (b'{"prompt": "  "}', b"empty", Status.REJECTED, "must not be empty"),
        (json.dumps({"prompt": "x" * 100_000}).encode(), b"huge", Status.REJECTED, "at most 8192 bytes"),
        (b'{"prompt": ', b"broken", Status.FAILED, "neither framed Avro nor JSON"),
        (b"\x00\x00\x00\x00\x01\xff\xff\xff\xff", b"foreign", Status.FAILED, "do not follow schema 1"),
        (b"\x00\x00\x00\x12\x67rest", b"unknown-id", Status.FAILED, "unknown schema id 4711"),
        (b'{"prompt": "x", "sede": 7}', b"misspelt", Status.REJECTED, "did you mean 'seed'"),
        (None, b"tombstone", Status.FAILED, "no value (a tombstone)"),
    ],
    ids=lambda v: v.decode() if isinstance(v, bytes) and len(v) < 12 and v.isalpha() else "",
)
def test_bad_input_is_answered_kept_and_does_not_stop_the_next(
    pipeline: Pipeline, value: bytes | None, key: bytes, status: Status, reason: str
) -> None:
    pipeline.write(value, key)
    after = pipeline.submit(1)
    pipeline.until(lambda: any(d.key == key for d in pipeline.dead_letters), "the raw bytes in the dlq")
    kept = next(d for d in pipeline.dead_letters if d.key == key)
    (result,) = pipeline.wait_all([kept.headers["pochade_error_request_id"].decode()])
    assert result.status == status
    assert reason in result.reason
    pipeline.completed(after)
    assert kept.value == value
    assert reason in kept.headers["pochade_error_message"].decode()


def test_a_deadline_that_has_passed_costs_no_generation(pipeline: Pipeline) -> None:
    line = {"prompt": "too late", "request_id": "late-1", "deadline_ms": now_ms() - 1}
    pipeline.write(json.dumps(line).encode())
    (result,) = pipeline.wait_all(["late-1"])
    assert (result.status, result.generate_ms, result.path) == (Status.EXPIRED, 0, "[]")


def test_a_pinned_policy_is_obeyed_within_a_second_of_its_plan_and_workers_follow(pipeline: Pipeline) -> None:
    def command(*arguments: str) -> None:
        plan_command.main(list(arguments), obj=lambda: pipeline.settings, standalone_mode=False)

    command("pin", "clipper-heavy")
    try:
        pipeline.until(lambda: pipeline.plans[-1][1].policy == "clipper-heavy", "the pinned plan")
        written_ms, plan = pipeline.plans[-1]
        pipeline.until(lambda: now_ms() > written_ms + 1000, "a second after the plan")
        ids = pipeline.submit(10)
        results = pipeline.wait_all(ids)
        assert {r.level for r in results} == {"heavy"}
        assert {path_of(r)[0]["plan_version"] for r in results} == {plan.version}
        pipeline.until(pipeline.is_ready, "both workers on the pinned plan's variant")
        assert set(plan.allocation.values()) == {"heavy"}
    finally:
        command("unpin")
    pipeline.until(lambda: pipeline.plans[-1][1].policy != "clipper-heavy", "the configured policy again")
    pipeline.completed(pipeline.submit(10))
    assert jobs_topic("heavy", 1).name == "jobs.heavy.v1"


def test_a_rejected_image_is_refined_from_the_plans_step_and_the_result_says_so(pipeline: Pipeline) -> None:
    painted_with = pipeline.settings.model_copy(update={"catalog": "profile"})

    def command(*arguments: str) -> None:
        plan_command.main(list(arguments), obj=lambda: painted_with, standalone_mode=False)

    command("pin", "diffserve-static", "--parameter", "paint_over_step=10")
    try:
        pipeline.until(lambda: [c.refine_from_step for c in pipeline.plans[-1][1].cascades] == [10], "the pinned plan")
        written_ms, _ = pipeline.plans[-1]
        pipeline.until(lambda: now_ms() > written_ms + 1000, "a second after the plan")
        escalated = [path_of(r) for r in pipeline.wait_all(pipeline.submit(30)) if r.escalated]
        assert escalated
        assert {(draft["paint_over_step"], final["paint_over_step"]) for draft, final in escalated} == {(0, 10)}
    finally:
        command("unpin")
    pipeline.until(lambda: pipeline.plans[-1][1].cascades[0].refine_from_step == 0, "the configured plan again")


def test_a_router_without_a_plan_waits_and_guesses_nothing(settings: Settings, tmp_path: pathlib.Path) -> None:
    create_topics(settings, ["light", "heavy"])
    roles = {"others": [name for name in ROLES if not name.startswith(("worker", "planner"))],
             "worker-1": ["worker"], "worker-2": ["worker"], "planner": ["planner"]}  # fmt: skip
    pipeline = Pipeline(settings, tmp_path, roles=roles)
    try:
        pipeline._follower.start()
        for role in ("others", "worker-1", "worker-2"):
            pipeline.start_role(role)
        ids = pipeline.submit(3)
        pipeline.until(lambda: len(pipeline.heartbeats) == 2, "workers up")
        assert pipeline.ended(ids) == 0
        pipeline.start_role("planner")
        pipeline.wait_all(ids)
    finally:
        pipeline.close()


def test_a_request_that_names_a_level_which_no_worker_serves_is_served_by_that_level(pipeline: Pipeline) -> None:
    def command(*arguments: str) -> None:
        plan_command.main(list(arguments), obj=lambda: pipeline.settings, standalone_mode=False)

    command("pin", "clipper-light")
    try:
        pipeline.until(lambda: set(pipeline.plans[-1][1].allocation.values()) == {"light"}, "all on light")
        pipeline.until(pipeline.is_ready, "both workers on light")
        pipeline.write(b'{"prompt": "x", "request_id": "named", "model": "heavy"}')
        (result,) = pipeline.wait_all(["named"])
        assert (result.status, result.level) == (Status.COMPLETED, "heavy")
        pipeline.until(lambda: set(pipeline.plans[-1][1].allocation.values()) == {"light"}, "its worker given back")
    finally:
        command("unpin")


def test_a_job_that_its_worker_comes_to_too_late_is_generated_by_a_cheaper_level(pipeline: Pipeline) -> None:
    """A hundred images take heavy ten seconds, and light one; a router would have sent them to light."""
    asked = a_request(request_id="hurried", options=GenerateOptions(n=100), deadline_ms=now_ms() + 8000)
    job = GenerateJob(
        job_id="hurried-0", classified=a_classified(asked), level="heavy", variant="heavy", stage=0, attempt=1,
        probability=1.0, plan_version=1, worker_id="", routed_ms=now_ms(),
    )  # fmt: skip
    send_all(pipeline.producer, [job_record(job, None, {}, "router", now_ms())])
    (result,) = pipeline.completed(["hurried"])
    assert (result.level, len(result.image_uris)) == ("light", 100)


def test_options_are_honoured_or_named_and_n_images_are_one_request(pipeline: Pipeline) -> None:
    asked = {"prompt": "x", "request_id": "many", "n": 3, "steps": 50, "quality": "low"}
    pipeline.write(json.dumps(asked).encode())
    pipeline.write(json.dumps({**asked, "request_id": "strict", "strict": True}).encode())
    pipeline.write(json.dumps({**asked, "request_id": "inked", "adapters": ["ink"]}).encode())
    many, strict, inked = pipeline.wait_all(["many", "strict", "inked"])
    assert (many.status, many.level, len(set(many.image_uris)), many.image_uris[0]) == (
        Status.COMPLETED, "light", 3, many.image_uri,
    )  # fmt: skip
    assert [reported.split(":")[0] for reported in many.overridden] == ["steps"]
    for refused in (strict, inked):
        assert (refused.status, refused.code) == (Status.REJECTED, "unhonoured")
    assert "ink" in inked.reason


def test_a_batch_request_is_generated_when_there_is_room(pipeline: Pipeline) -> None:
    others = pipeline.submit(20)
    pipeline.write(b'{"prompt": "no hurry", "request_id": "batch-1", "tier": "batch"}')
    (result,) = pipeline.wait_all(["batch-1"])
    assert result.status == Status.COMPLETED
    pipeline.wait_all(others)


def test_a_job_that_kills_every_worker_it_meets_ends_failed_with_the_fleet_alive(pipeline: Pipeline) -> None:
    pipeline.write(b'{"prompt": "!exit", "request_id": "killer"}')
    pipeline.write(b'{"prompt": "!raise", "request_id": "raiser"}')
    ids = pipeline.submit(10)

    def is_over() -> bool:
        pipeline.heal()  # what an orchestrator does with a dead worker
        return pipeline.ended(["killer", "raiser", *ids]) == 12

    pipeline.until(is_over, "the killer's end, and everybody else's")
    killer, raiser, *others = pipeline.wait_all(["killer", "raiser", *ids])
    assert (killer.status, raiser.status) == (Status.FAILED, Status.FAILED)
    assert "ended 2 workers" in killer.reason
    assert "the prompt asked for it" in raiser.reason
    assert [(r.status, r.reason) for r in others if r.status is not Status.COMPLETED] == []
    pipeline.until(lambda: {d.key for d in pipeline.dead_letters} >= {b"killer", b"raiser"}, "both in the dlq")

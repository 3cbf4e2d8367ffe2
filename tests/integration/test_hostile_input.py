"""Input that ends no role, made for it or not: each is answered, and the next prompt is generated.

Every one of these once ended a role, most of them for good. All that this pipeline writes is compressed.
"""

import contextlib
import json
import pathlib
import uuid
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    ResourceType,
)

from schemas.messages import Status
from schemas.record import Incoming, Outgoing
from schemas.topics import CLASSIFIED, DLQ, IMAGES, PROMPTS, TABLE, full_name, jobs_topic
from streams.clock import now_ms
from streams.kafka.clients import client_config
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.writing import send_all
from streams.settings import load
from tests.integration.calling import pochade
from tests.integration.conftest import delete_topics
from tests.integration.pipeline import Pipeline, running_pipeline
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S
from tests.raw_batches import a_batch, write_batch

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def pipeline(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    kafka = {"prefix": "hostile", "session_timeout_ms": 3000, "properties": {"compression.type": "zstd"}}
    settings = load({"home": broker_home, "kafka": kafka})
    with running_pipeline(settings, tmp_path_factory.mktemp("logs")) as pipeline:
        yield pipeline
    delete_topics(settings)  # `gc` in other tests reads what all deployments hold, and nobody can read what lies here


def line(**fields: object) -> bytes:
    return json.dumps({"prompt": "a red heart", **fields}).encode()


@pytest.mark.parametrize(
    ("key", "value", "headers", "status"),
    [
        ("megabyte", line(request_id="megabyte", prompt="x" * 998_000), {}, Status.REJECTED),
        ("nested", b"[" * 500_000, {}, Status.FAILED),
        ("ancient", line(request_id="ancient", created_ms=-(2**63)), {}, Status.FAILED),
        ("headers", line(request_id="headers"), {"h": b"x" * 995_000}, Status.FAILED),
        ("tenant", line(request_id="tenant", tenant="x" * 990_000), {}, Status.REJECTED),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() and value.islower() else "",
)
def test_it_is_answered_and_the_next_prompt_is_generated(
    pipeline: Pipeline, key: str, value: bytes, headers: dict[str, bytes], status: Status
) -> None:
    record = Outgoing(topic=PROMPTS, key=key.encode(), value=value, headers=headers)
    send_all(pipeline.producer, [record], 30)
    after = pipeline.submit(5)
    pipeline.until(lambda: any(d.key == key.encode() for d in pipeline.dead_letters), "its bytes in the dlq")
    kept = next(d for d in pipeline.dead_letters if d.key == key.encode())
    request_id = kept.headers["pochade_error_request_id"].decode()
    assert (request_id == key) == (key != "nested"), "what cannot be read states no id: its position is one"
    (result,) = pipeline.wait_all([request_id])
    assert result.status == status
    pipeline.completed(after)
    if kept.headers["pochade_error_role"] == b"classifier":  # the ledger keeps the outcome that it could not use
        assert value.startswith(kept.value or b"-")


PROMPTS_OF_ONE_USER = ("a red heart", "a blue star", "a green circle", "a yellow square", "two red hearts")


def test_prompts_under_one_key_without_ids_are_requests_of_their_own(pipeline: Pipeline) -> None:
    user = f"user {uuid.uuid4().hex}"
    asked = {f"{prompt} for {user}" for prompt in PROMPTS_OF_ONE_USER}
    for prompt in asked:
        pipeline.write(json.dumps({"prompt": prompt}).encode(), user.encode())

    def served() -> dict[str, str]:
        return {result.request_id: result.prompt for result in pipeline.results if result.prompt.endswith(user)}

    pipeline.until(lambda: len(served()) == len(asked), "a result of each")
    assert set(served().values()) == asked
    assert user not in served()


@pytest.mark.parametrize("value", [None, b"", b"[1]", b"\x00\x00\x00\x00\x01broken"])
def test_what_cannot_be_read_ends_no_request_whose_id_is_its_key(pipeline: Pipeline, value: bytes | None) -> None:
    request_id, prompt = a_prompt()
    good, bad = (Outgoing(topic=PROMPTS, key=request_id.encode(), value=each) for each in (prompt, value))
    send_all(pipeline.producer, [good, bad], PATIENCE_S)
    pipeline.completed([request_id])
    pipeline.until(lambda: any(d.key == request_id.encode() for d in pipeline.dead_letters), "a dead letter")
    letter = next(d for d in pipeline.dead_letters if d.key == request_id.encode())
    own_id = letter.headers["pochade_error_request_id"].decode()
    (result,) = pipeline.wait_all([own_id])
    assert (result.status, own_id != request_id) == (Status.FAILED, True)
    assert ("no value (a tombstone)" in result.reason) == (value is None)


def test_what_comes_under_the_id_of_a_request_in_flight_leaves_it_untouched(pipeline: Pipeline) -> None:
    pipeline.heal()
    for worker in ("worker-1", "worker-2"):
        pipeline.kill(worker)
    request_id, prompt = a_prompt()
    pipeline.write(prompt, b"its producer")
    seen: list[Incoming] = []
    classified = TopicTailer(pipeline.settings, [CLASSIFIED], seen.append).start()
    with contextlib.closing(classified):
        pipeline.until(lambda: any(each.key == request_id.encode() for each in seen), "it is classified")
    late = now_ms() - 1
    for more in ({"prompt": 7}, {"prompt": " "}, {"unknown": 1}, {"deadline_ms": late}, {"prompt": "b", "tenant": "b"}):
        pipeline.write(line(**{"request_id": request_id, **more}), b"another")
    others = [line(request_id=uuid.uuid4().hex, prompt=" ") for _ in range(20)]  # in every partition, behind those
    for each in others:
        pipeline.write(each)
    pipeline.wait_all([json.loads(each)["request_id"] for each in others])
    pipeline.heal()
    (result,) = pipeline.completed([request_id])
    assert (result.prompt, result.tenant) == (json.loads(prompt)["prompt"], "default")


def a_prompt() -> tuple[str, bytes]:
    """An id, and a prompt under it that compresses."""
    request_id = uuid.uuid4().hex
    return request_id, line(request_id=request_id, prompt="a red heart " * 50)


def topic(pipeline: Pipeline, name: str) -> str:
    return full_name(pipeline.settings.kafka.prefix, name)


def test_prompts_are_served_however_their_producer_compresses_them(pipeline: Pipeline) -> None:
    ids = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({**client_config(pipeline.settings), "compression.type": codec})
        prompts = [a_prompt() for _ in range(3)]
        for request_id, value in prompts:
            producer.produce(topic(pipeline, PROMPTS), value)
            ids.append(request_id)
        assert producer.flush(PATIENCE_S) == 0
    pipeline.completed(ids)


def test_prompts_of_an_aborted_transaction_were_never_said(pipeline: Pipeline) -> None:
    config = {**client_config(pipeline.settings), "compression.type": "none", "transactional.id": "hostile.asker"}
    producer = Producer(config)
    producer.init_transactions(PATIENCE_S)
    asked: dict[bool, list[str]] = {True: [], False: []}
    for is_committed in (False, True, False, True):
        producer.begin_transaction()
        for request_id, value in [a_prompt() for _ in range(8)]:
            producer.produce(topic(pipeline, PROMPTS), value)
            asked[is_committed].append(request_id)
        producer.flush(PATIENCE_S)
        if is_committed:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    pipeline.completed(asked[True] + pipeline.submit(5))
    assert pipeline.ended(asked[False]) == 0


def test_header_names_that_are_no_text_stop_nobody_on_any_topic(pipeline: Pipeline) -> None:
    odd = [(b"\xff\xfe", b"v"), (b"twice", None), (b"twice", b"2"), (b"\x80", None)]
    pipeline.heal()
    before = pipeline.process_ids()
    names = [each.name for each in TABLE] + [jobs_topic(variant, 1).name for variant in ("light", "heavy")]
    bootstrap = client_config(pipeline.settings)["bootstrap.servers"]
    request_id, value = a_prompt()
    for name in names:
        content = value if name == PROMPTS else b"no message of ours"
        write_batch(bootstrap, topic(pipeline, name), a_batch((b"odd", content, odd), (b"odd", content, odd)))
    pipeline.completed([request_id, *pipeline.submit(10)])
    assert pipeline.process_ids() == before
    settings = ("--set", f"kafka.prefix={pipeline.settings.kafka.prefix}", "--set", "catalog=profile")
    for command in (["audit", "--no-images"], ["dlq", "ls"]):
        done = pochade(pipeline.settings.home, *settings, *command)
        assert done.returncode in (0, 1), f"{command}: {done.returncode}\n{done.stderr[-2000:]}"
        assert "Traceback" not in done.stderr


def test_partitions_may_be_added_while_all_run(pipeline: Pipeline) -> None:
    pipeline.heal()
    before = pipeline.process_ids()
    admin = AdminClient(client_config(pipeline.settings))
    grown = [NewPartitions(topic(pipeline, jobs_topic(v, 1).name), 6) for v in ("light", "heavy")]
    grown += [NewPartitions(topic(pipeline, name), 6) for name in (PROMPTS, IMAGES)]
    for future in admin.create_partitions(grown).values():
        future.result(PATIENCE_S)
    pipeline.completed(pipeline.submit(100, rate=20))  # few enough for the slowest machine: none is shed
    assert pipeline.process_ids() == before


@contextlib.contextmanager
def configured(pipeline: Pipeline, limits: Mapping[str, int]) -> Iterator[None]:
    """Topics with `max.message.bytes` of their own."""

    def alter(operation: AlterConfigOpType) -> None:
        admin = AdminClient(client_config(pipeline.settings))
        entries = {
            name: ConfigEntry("max.message.bytes", str(most), incremental_operation=operation)
            for name, most in limits.items()
        }
        resources = [
            ConfigResource(ResourceType.TOPIC, topic(pipeline, name), incremental_configs=[entry])
            for name, entry in entries.items()
        ]
        for future in admin.incremental_alter_configs(resources).values():
            future.result(PATIENCE_S)

    def are_in_force() -> bool:
        admin = AdminClient(client_config(pipeline.settings))
        asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic(pipeline, name)) for name in limits])
        reported = {resource.name: future.result(PATIENCE_S) for resource, future in asked.items()}
        return all(
            reported[topic(pipeline, name)]["max.message.bytes"].value == str(most) for name, most in limits.items()
        )

    alter(AlterConfigOpType.SET)
    poll_until(are_in_force, "the topics' limits: a broker learns of them a moment after they were accepted")
    yield
    alter(AlterConfigOpType.DELETE)


def incompressible(size: int) -> str:
    return "".join(uuid.uuid4().hex for _ in range(size // 32))


def test_what_a_topic_does_not_take_ends_failed_and_the_next_prompt_is_generated(pipeline: Pipeline) -> None:
    pipeline.heal()
    before = pipeline.process_ids()
    with configured(pipeline, {CLASSIFIED: 3000, DLQ: 1500}):
        large = [uuid.uuid4().hex for _ in range(10)]
        for request_id in large:
            pipeline.write(line(request_id=request_id, prompt=incompressible(7000)), request_id.encode())
        pipeline.completed(pipeline.submit(10))
        results = pipeline.wait_all(large)
    assert {result.status for result in results} == {Status.FAILED}
    assert all(CLASSIFIED in result.reason and "bytes" in result.reason for result in results)
    keys = {request_id.encode() for request_id in large}
    pipeline.until(lambda: {letter.key for letter in pipeline.dead_letters} >= keys, "all of them in the dlq")
    letters = {letter.key: letter for letter in pipeline.dead_letters}
    assert all("pochade_error_cut_from_bytes" in letters[request_id.encode()].headers for request_id in large)
    assert pipeline.process_ids() == before

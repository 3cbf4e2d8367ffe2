"""A rolling upgrade: two releases side by side, and every record that travels between them has a field more."""

import os
import pathlib
import re
from collections.abc import Sequence
from unittest import mock

import pytest

from replay.local.processes import role_process
from schemas.errors import PochadeError
from schemas.ids import new_request_id
from schemas.messages import GenerateRequest, Result, Status
from schemas.record import Incoming, Outgoing
from schemas.registry import registered
from schemas.topics import CLASSIFIED, DLQ, FLOW_PARTITIONS, IMAGES, OUTCOMES, PROMPTS, RESULTS, SCHEMAS
from streams.clock import now_ms
from streams.codec.avro import decode_result, encode
from streams.codec.schema_topic import announcements
from streams.commands.opening import client
from streams.kafka.clients import topic_name
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.consumers.snapshot import past
from streams.kafka.producers.partitioner import partition_of
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics, own_topics
from streams.processes.children import Child, end_all
from streams.settings import Settings
from tests.integration.forked import ROLE_SERVER
from tests.integration.pipeline import all_completed
from tests.integration.waiting import ask, poll_until
from tests.next_release import SILENT, written

pytestmark = pytest.mark.broker

NEW, OLD = ("classifier", "planner", "worker"), ("router", "discriminator", "ledger")
REQUESTS = 20


def ready(log: pathlib.Path) -> tuple[int, str]:
    """What the role whose log this is answers to /readyz."""
    found = re.search(r"health and metrics on (\S+)/livez", log.read_text()) if log.exists() else None
    return ask(f"{found[1]}/readyz") if found else (0, "")


def both_releases(options: Sequence[str], logs: Sequence[pathlib.Path]) -> list[Child]:
    """Start the roles of the older release and those of the newer one, whose roles announce no schemas."""
    old, new = (role_process(name, roles, options, {}).command for name, roles in (("old", OLD), ("new", NEW)))
    with mock.patch.dict(os.environ, {SILENT: "1"}):
        newer = ROLE_SERVER.fork(new, logs[1], target="tests.next_release:main")
    return [ROLE_SERVER.fork(old, logs[0]), newer]


def submitted(producer: KafkaRecordProducer) -> list[GenerateRequest]:
    """Requests that were written to `prompts`."""
    requests = [
        GenerateRequest(request_id=new_request_id(), prompt=f"prompt {n}", created_ms=now_ms()) for n in range(REQUESTS)
    ]
    send_all(producer, [Outgoing(topic=PROMPTS, key=r.request_id.encode(), value=encode(r)) for r in requests])
    return requests


def open_requests(
    settings: Settings, requests: Sequence[GenerateRequest], results: Sequence[Result], logs: Sequence[pathlib.Path]
) -> str:
    """Where the records of each request without a result lie, and what the roles logged, for a test that fails."""
    missing = {r.request_id.encode() for r in requests} - {r.request_id.encode() for r in results}
    names = [name.removeprefix(f"{settings.kafka.prefix}.") for name in own_topics(settings)]
    found = past(settings, names, keep=lambda record: record.key in missing)
    places = [f"{r.key!r} {r.topic}/{r.partition}@{r.offset} at {r.timestamp_ms}" for r in found]
    return "\n".join([f"{len(results)} ended", *sorted(places), *(log.read_text()[-3000:] for log in logs)])


def test_an_older_release_waits_for_a_newer_one_s_schemas_and_then_serves_everything(
    settings: Settings, producer: KafkaRecordProducer, tmp_path: pathlib.Path
) -> None:
    create_topics(settings, ["light", "heavy"])
    results: list[Result] = []
    letters: list[Incoming] = []

    def on_record(record: Incoming) -> None:
        if record.topic == DLQ:
            letters.append(record)
        else:
            results.append(decode_result(record.value))

    options = [
        "--home", str(settings.home), "--set", f"kafka.prefix={settings.kafka.prefix}", "--set", "catalog=profile",
        "--set", "planner.policy=random-split",
    ]  # fmt: skip
    logs = tmp_path / "old.log", tmp_path / "new.log"
    reading = TopicTailer(settings, [RESULTS, DLQ], on_record).start()
    children = both_releases(options, logs)
    try:
        requests = submitted(producer)
        poll_until(lambda: "of topic classified.v1 at" in ready(logs[0])[1], lambda: logs[0].read_text())
        assert ready(logs[0])[0] == 503
        assert (results, letters) == ([], []), "nobody ends what a newer release can serve"
        with written():
            tell = announcements()
        send_all(producer, tell)
        poll_until(lambda: len(results) == REQUESTS, lambda: open_requests(settings, requests, results, logs))
        poll_until(lambda: ready(logs[0])[0] == 200, lambda: ready(logs[0])[1])
    finally:
        end_all(children, 60)
        reading.close()
    assert {result.request_id for result in results} == {request.request_id for request in requests}
    all_completed(results)
    assert (len(results), letters) == (REQUESTS, [])


def test_readers_are_upgraded_first_where_the_newer_release_writes_as_the_older_one(
    settings: Settings, producer: KafkaRecordProducer, tmp_path: pathlib.Path
) -> None:
    """Nobody announces the new schemas, and no registry has them: the older roles serve all the same."""
    create_topics(settings, ["light", "heavy"])
    results: list[Result] = []
    options = [
        "--home", str(settings.home), "--set", f"kafka.prefix={settings.kafka.prefix}", "--set", "catalog=profile",
        "--set", "planner.policy=random-split", "--set", f"schemas.write_up_to={registered()[-1].id}",
    ]  # fmt: skip
    logs = tmp_path / "old.log", tmp_path / "new.log"
    reading = TopicTailer(settings, [RESULTS], lambda record: results.append(decode_result(record.value))).start()
    children = both_releases(options, logs)
    try:
        requests = submitted(producer)
        poll_until(lambda: len(results) == REQUESTS, lambda: open_requests(settings, requests, results, logs))
    finally:
        end_all(children, 60)
        reading.close()
    assert {(result.request_id, result.status) for result in results} == {
        (r.request_id, Status.COMPLETED) for r in requests
    }
    assert "unknown schema id" not in logs[0].read_text()


def test_records_of_unknown_schemas_hold_up_their_own_partitions_only(
    settings: Settings, producer: KafkaRecordProducer, tmp_path: pathlib.Path
) -> None:
    """One lies first on partition 0 of the topics of router, discriminator and ledger."""
    create_topics(settings, ["light", "heavy"])
    unknown = b"\0" + (len(registered()) + 500).to_bytes(4, "big") + b"junk"
    held = [Outgoing(topic=t, key=b"x", value=unknown, partition=0) for t in (CLASSIFIED, IMAGES, OUTCOMES)]
    send_all(producer, held)
    results: list[Result] = []
    options = [
        "--home", str(settings.home), "--set", f"kafka.prefix={settings.kafka.prefix}", "--set", "catalog=profile",
        "--set", "planner.policy=random-split",
    ]  # fmt: skip
    log = tmp_path / "all.log"
    reading = TopicTailer(settings, [RESULTS], lambda record: results.append(decode_result(record.value))).start()
    children = [ROLE_SERVER.fork(role_process("all", (*OLD, *NEW), options, {}).command, log)]
    try:
        requests = submitted(producer)
        elsewhere = {r.request_id for r in requests if partition_of(r.request_id.encode(), FLOW_PARTITIONS) != 0}
        poll_until(
            lambda: {result.request_id for result in results} >= elsewhere,
            lambda: open_requests(settings, requests, results, [log]),
        )
    finally:
        end_all(children, 60)
        reading.close()
    assert {result.request_id for result in results} == elsewhere, "those behind it wait"
    for topic in (CLASSIFIED, IMAGES, OUTCOMES):
        assert f"of topic {topic} at 0@0" in log.read_text()


def test_a_command_writes_by_the_schemas_of_the_deployment_and_announces_none(settings: Settings) -> None:
    create_topics(settings)
    poll_until(lambda: topic_name(settings, SCHEMAS) in own_topics(settings), "the topic")
    with pytest.raises(PochadeError, match="has not announced how to cancel"), client(settings) as asking:
        asking.handle("r-1").cancel()
    assert past(settings, [SCHEMAS]) == []

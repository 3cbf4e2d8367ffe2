"""watch, cancel, dlq, fetch and gc on topics that lie in memory."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result
from pochade import Client, Kafka
from pochade.cluster import Record

from schemas.errors import InvalidRequest
from schemas.messages import GenerateRequest, OperatorAction, Outcome, Status
from schemas.record import Incoming, Outgoing
from schemas.registry import by_id
from schemas.topics import ACTIONS, CLASSIFIED, DLQ, IMAGES, OUTCOMES, PROMPTS, RESULTS, SCHEMAS
from streams.cli import main
from streams.clock import now_ms
from streams.codec import schema_topic
from streams.codec.avro import decode, encode
from streams.codec.headers import dead_letter
from streams.codec.schema_topic import announcements
from streams.commands import doctor as ready_command
from streams.commands import opening
from streams.kafka import topics as kafka_topics
from streams.kafka.consumers import snapshot
from streams.operator import cluster, doctor
from streams.operator.cluster import Found
from streams.operator.verdicts import fail, ok, starting
from streams.settings import Settings
from streams.store import open as stores
from streams.store.port import Stored, Unreadable
from tests.builders import NOW_MS, a_request
from tests.memory_kafka import MemoryRecordProducer
from tests.memory_store import MemoryImageStore
from tests.replay.runs import a_generated_result, a_result, png
from tests.streams.client.memory_cluster import MemoryCluster
from tests.streams.operator.test_client import record

DAY_MS = 86_400_000


PROMPT = b'{"prompt": "x"}'


class Deployment:
    """Topics and images in memory; an outcome that is written becomes a result at once, as the ledger would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: list[Incoming] = []
        self.producer = MemoryRecordProducer()
        self.cluster = MemoryCluster(on_write=self._end)
        for each in announcements():
            self.cluster.arrive(SCHEMAS, "", each.value or b"")
        self.store = MemoryImageStore()
        monkeypatch.setattr(snapshot, "past", self._past)
        monkeypatch.setattr(snapshot, "live", self._live)
        monkeypatch.setattr(snapshot, "one", self._one)
        monkeypatch.setattr(opening, "client", self._client)
        monkeypatch.setattr(opening, "producer", self._producer)
        monkeypatch.setattr(stores, "open_store", lambda _: self.store)
        monkeypatch.setattr(cluster, "deployments", lambda settings: [settings])
        kept = Found(name=RESULTS, partitions=4, replicas=1, config={"retention.ms": str(8 * DAY_MS)})
        monkeypatch.setattr(cluster, "topics", lambda _: {RESULTS: kept})
        self.existing = ["pochade.actions.v1"]
        monkeypatch.setattr(kafka_topics, "own_topics", lambda _: self.existing)
        monkeypatch.setattr(schema_topic, "announce", lambda *_: None)

    def add(self, topic: str, value: bytes | None, key: str, headers: dict[str, bytes] | None = None) -> None:
        offset = sum(each.topic == topic for each in self.records)
        self.records.append(
            Incoming(
                topic=topic, partition=0, offset=offset, timestamp_ms=NOW_MS, key=key.encode(), value=value,
                headers=headers or {},
            )
        )  # fmt: skip
        if topic == RESULTS:
            self.cluster.arrive(RESULTS, key, value or b"")

    def bury(self, value: bytes | None, request_id: str, topic: str = PROMPTS, error: Exception | None = None) -> None:
        read = Incoming(topic=topic, partition=1, offset=2, timestamp_ms=NOW_MS, key=request_id.encode(), value=value)
        letter = dead_letter(read, error=error or ValueError("broken"), role="worker", request_id=request_id)
        self.add(DLQ, letter.value, request_id, dict(letter.headers))

    def _past(
        self,
        _settings: Settings,
        topics: Sequence[str],
        *,
        since_ms: int = 0,
        keep: Callable[[Incoming], bool] = lambda _: True,
        timeout_s: float = 0,
    ) -> list[Incoming]:
        assert timeout_s >= 0
        return [r for r in self.records if r.topic in topics and since_ms >= 0 and keep(r)]

    def _live(
        self, _settings: Settings, topics: Sequence[str], *, since_ms: int | None
    ) -> Generator[Incoming | None, None, None]:
        assert since_ms is None or since_ms > 0
        yield from [r for r in self.records if r.topic in topics]
        while True:
            yield None

    def _one(self, _settings: Settings, topic: str, partition: int, offset: int) -> Incoming:
        return next(r for r in self.records if (r.topic, r.partition, r.offset) == (topic, partition, offset))

    @contextlib.contextmanager
    def _producer(self, _settings: Settings) -> Iterator[MemoryRecordProducer]:
        yield self.producer

    @contextlib.contextmanager
    def _client(self, _settings: Settings) -> Iterator[Client]:
        with Client(Kafka({}, cluster=self.cluster)) as client:  # type: ignore[arg-type]
            yield client

    def _end(self, written: Record) -> None:
        outcome = decode(written.value, Outcome)
        result = a_result(request_id=written.key, status=outcome.status, reason=outcome.reason)
        self.cluster.arrive(RESULTS, written.key, encode(result))

    def sent(self, topic: str) -> list[Outgoing]:
        return self.producer.topics.get(topic, [])


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    return Deployment(monkeypatch)


def pochade(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_watch_shows_one_line_a_note_and_ends_with_its_requests(deployment: Deployment) -> None:
    for name in ("r-1", "r-2"):
        deployment.add(RESULTS, record(a_result(request_id=name)).value, name)
    done = pochade("watch", "r-1", "-o", "jsonl")
    (note,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (note["request_id"], note["kind"], note["detail"]["status"]) == ("r-1", "ended", "COMPLETED")
    assert "r-2\tended" in pochade("watch", "r-2").stdout


@pytest.mark.usefixtures("deployment")
def test_watch_that_runs_out_of_time_says_what_it_waited_for() -> None:
    done = pochade("watch", "r-9", "--timeout", "0.01")
    assert (done.exit_code, "not ended within 0.01 s: r-9" in done.stderr) == (1, True)


def test_cancel_writes_an_outcome_under_the_id(deployment: Deployment) -> None:
    deployment.add(PROMPTS, b"{}", "r-1")
    done = pochade("cancel", "r-1", "--reason", "closed")
    (written,) = deployment.cluster.values(OUTCOMES)
    outcome = decode(written, Outcome)
    assert done.exit_code == 0
    assert (outcome.request_id, outcome.status, outcome.by, outcome.reason) == (
        "r-1", Status.CANCELLED, "cancel", "closed",
    )  # fmt: skip


@pytest.mark.parametrize("options", [(), ("--wait",), ("-o", "json")])
def test_an_id_that_no_request_has_is_cancelled_in_advance_and_is_a_failure(
    deployment: Deployment, options: tuple[str, ...]
) -> None:
    done = pochade("cancel", "nope", *options)
    assert (done.exit_code, len(deployment.cluster.values(OUTCOMES))) == (1, 1)
    assert "no request 'nope' is known: no record of the last 1d has this id as its key" in done.stderr
    assert "json" not in options or json.loads(done.stdout)["known"] is False


def test_cancel_and_wait_tells_the_end(deployment: Deployment) -> None:
    deployment.add(CLASSIFIED, b"{}", "r-1")
    done = pochade("cancel", "r-1", "--wait", "-o", "json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["status"] == "CANCELLED"
    assert len(deployment.cluster.values(OUTCOMES)) == 1


def test_a_request_that_had_ended_keeps_its_end(deployment: Deployment) -> None:
    deployment.add(RESULTS, record(a_result(request_id="r-1")).value, "r-1")
    done = pochade("cancel", "r-1", "--wait")
    assert (done.exit_code, "had ended as COMPLETED, and keeps that end" in done.stdout) == (1, True)
    assert deployment.cluster.values(OUTCOMES) == []


def test_dead_letters_are_listed_by_class(deployment: Deployment) -> None:
    deployment.bury(b"x", "r-1")
    deployment.bury(b"y", "r-2", error=OSError("disk"))
    rows = json.loads(pochade("dlq", "ls", "-o", "json").stdout)
    assert [(row["position"], row["error"], row["request_id"]) for row in rows] == [
        ("0@0", "ValueError", "r-1"), ("0@1", "OSError", "r-2"),
    ]  # fmt: skip
    (row,) = [
        json.loads(line) for line in pochade("dlq", "ls", "--class", "OSError", "-o", "jsonl").stdout.splitlines()
    ]
    assert row["message"] == "disk"


def test_a_dead_letter_is_shown_with_its_raw_bytes(deployment: Deployment) -> None:
    deployment.bury(b"\x00\x01raw bytes of sixteen", "r-1")
    reported = pochade("dlq", "show", "0@0").stdout
    assert "00000000  00 01 72 61 77" in reported
    assert "..raw bytes of s" in reported
    assert "header pochade_error_class  ValueError" in reported
    assert json.loads(pochade("dlq", "show", "0@0", "-o", "json").stdout)["value_hex"].startswith("0001726177")
    assert pochade("dlq", "show", "first").exit_code == 2


def test_a_dry_run_sends_nothing(deployment: Deployment) -> None:
    deployment.bury(PROMPT, "r-1")
    done = pochade("dlq", "redrive", "--dry-run", "-o", "json")
    assert (json.loads(done.stdout)[0]["sent"], deployment.producer.topics) == (False, {})
    assert "1 would be sent" in done.stderr


def test_what_a_client_sent_wrongly_is_marked_and_sent_again_only_where_it_is_asked_for(
    deployment: Deployment,
) -> None:
    deployment.bury(b"x", "r-1", error=InvalidRequest("steps must be from 1 to 200"))
    deployment.bury(b"y", "r-2", error=OSError("disk"))
    rows = json.loads(pochade("dlq", "ls", "-o", "json").stdout)
    assert [row["fault"] for row in rows] == ["client", "ours"]

    def redriven(*words: str) -> list[str]:
        done = pochade("dlq", "redrive", "--dry-run", "-o", "json", *words)
        assert ("1 error of clients left out" in done.stderr) == (not words)
        return [row["position"] for row in json.loads(done.stdout)]

    assert redriven() == ["0@1"]
    assert redriven("0@0") == ["0@0"]
    assert redriven("--class", "InvalidRequest") == ["0@0"]


def test_dead_letters_of_one_request_are_one_redrive(deployment: Deployment) -> None:
    for name in ("r-1", "r-1-redrive-1"):
        deployment.bury(encode(a_request(request_id=name)), name)
        deployment.add(RESULTS, record(a_result(request_id=name, status=Status.FAILED)).value, name)
    done = pochade("dlq", "redrive", "--rate", "1000")
    (written,) = deployment.sent(PROMPTS)
    assert decode(written.value, GenerateRequest).request_id == "r-1-redrive-2"
    assert (done.exit_code, "1 sent, 1 need not be, 0 cannot" in done.stderr) == (0, True)


def test_a_redrive_is_recorded_before_it_is_done_and_with_how_it_ended(deployment: Deployment) -> None:
    for name in ("r-0", "r-1"):
        deployment.bury(PROMPT, name)
    assert pochade("dlq", "redrive").exit_code == 0
    begun, ended = (decode(record.value, OperatorAction) for record in deployment.sent(ACTIONS))
    assert (begun.action, begun.by, begun.subject, begun.outcome) == ("redrive", "command line", "2 dead letters", "")
    assert (ended.action_id, ended.outcome) == (begun.action_id, "2 of 2 sent")
    assert json.loads(ended.detail)["positions"] == ["0@0", "0@1"]


def test_a_redrive_goes_on_where_it_cannot_be_recorded(deployment: Deployment) -> None:
    deployment.existing = []
    deployment.bury(PROMPT, "r-0")
    done = pochade("dlq", "redrive")
    assert (done.exit_code, len(deployment.sent(PROMPTS)), deployment.sent(ACTIONS)) == (0, 1, [])
    assert "may leave no record on the topic actions.v1: it does not exist; `pochade topics create`" in done.stderr


def test_redriving_what_cannot_be_fails_after_the_others_are_sent(deployment: Deployment) -> None:
    deployment.add(DLQ, b"no headers", "r-0")
    deployment.bury(PROMPT, "r-1")
    done = pochade("dlq", "redrive", "-o", "jsonl")
    assert (done.exit_code, len(deployment.sent(PROMPTS))) == (1, 1)
    assert "no header pochade_error_topic" in done.stdout


def test_only_the_positions_that_were_named_are_redriven(deployment: Deployment) -> None:
    for name in ("r-0", "r-1", "r-2"):
        deployment.bury(PROMPT, name)
    assert pochade("dlq", "redrive", "0@1").exit_code == 0
    assert [written.key for written in deployment.sent(PROMPTS)] == [b"r-1"]
    assert "no dead letter at 0@9" in pochade("dlq", "redrive", "0@9").stderr


def test_the_image_of_a_request_is_fetched(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    image = png("blue")
    result = a_generated_result(deployment.store, image, request_id="r-1")
    deployment.add(RESULTS, record(result).value, "r-1")
    target = tmp_path / "new" / "x.png"
    assert pochade("fetch", "r-1", "--out", str(target)).exit_code == 0
    assert target.read_bytes() == image
    assert pochade("fetch", "r-1", "--out", "-").stdout_bytes == image
    assert [path.name for path in target.parent.iterdir()] == ["x.png"]


def test_an_image_of_a_result_that_just_came_is_fetched_as_soon_as_it_can_be_read(
    deployment: Deployment, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.commands.images.time.sleep", lambda _seconds: None)
    result = dataclasses.replace(a_generated_result(deployment.store, request_id="r-1"), ended_ms=now_ms())
    deployment.add(RESULTS, record(result).value, "r-1")
    get, answers = deployment.store.get, [Unreadable("has gone")] * 3
    monkeypatch.setattr(deployment.store, "get", lambda uri: _raised(answers.pop()) if answers else get(uri))
    assert pochade("fetch", "r-1", "--out", str(tmp_path / "x.png")).exit_code == 0


def _raised(error: Exception) -> NoReturn:
    raise error


def test_what_cannot_be_fetched_says_why(deployment: Deployment, tmp_path: pathlib.Path) -> None:
    failed = a_result(request_id="r-1", status=Status.FAILED, reason="because")
    gone = a_generated_result(MemoryImageStore(), request_id="r-2")
    for result in (failed, gone):
        deployment.add(RESULTS, record(result).value, result.request_id)
    target = tmp_path / "x.png"
    for name, why in (("r-1", "ended as FAILED: because"), ("r-2", "has gone"), ("r-3", "no result of request 'r-3'")):
        done = pochade("fetch", name, "--out", str(target))
        assert (done.exit_code, why in done.stderr) == (1, True)
    assert not target.exists()


class AgedStore(MemoryImageStore):
    """All its images were stored two hours ago."""

    def list(self, older_than_ms: int) -> Iterator[Stored]:
        for each in super().list(older_than_ms):
            yield each._replace(modified_ms=now_ms() - 7_200_000)


def test_gc_deletes_orphans_and_keeps_what_results_name(deployment: Deployment) -> None:
    deployment.store = AgedStore()
    result = a_generated_result(deployment.store, png("red"), request_id="r-1")
    deployment.add(RESULTS, record(result).value, "r-1")
    orphan = deployment.store.put("nobody", b"12345")
    table = pochade("gc", "--orphans", "--dry-run").stdout
    assert "orphans\t1\t5\tFalse" in table
    assert deployment.store.get(orphan)
    assert pochade("gc").exit_code == 0
    assert deployment.store.get(orphan)
    rows = {row["pictures"]: row for row in json.loads(pochade("gc", "--orphans", "-o", "json").stdout)}
    assert (rows["orphans"]["count"], rows["orphans"]["bytes"], rows["kept"]["count"]) == (1, 5, 1)
    assert [each.uri for each in deployment.store.list(now_ms())] == [result.image_uri]


def test_gc_deletes_what_is_older_than_asked(deployment: Deployment) -> None:
    deployment.store = AgedStore()
    deployment.store.put("a", b"123")
    assert "old\t0" in pochade("gc", "--older-than", "3h").stdout
    assert "old\t1\t3\tTrue" in pochade("gc", "--older-than", "1h").stdout
    assert not list(deployment.store.list(now_ms()))


def test_gc_deletes_nothing_when_it_cannot_read_what_is_named(deployment: Deployment) -> None:
    deployment.store = AgedStore()
    deployment.store.put("a", b"123")
    deployment.add(IMAGES, b"\0" + (len(by_id()) + 1).to_bytes(4, "big"), "r-1")  # of a newer release
    done = pochade("gc", "--orphans")
    assert (done.exit_code, "orphans cannot be recognised" in done.stderr) == (1, True)
    assert len(list(deployment.store.list(now_ms()))) == 1


@pytest.mark.usefixtures("deployment")
def test_ready_waits_until_nothing_is_lacking_and_says_what_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, gateway = ok("plan", "version 1"), ok("gateway", "the gateway here answers")
    loading = starting("workers", "one (light, loading)", "wait", "workers")
    seen = iter([[fail("plan", "none was published", "start a planner"), loading], [plan, loading], [plan, gateway]])
    monkeypatch.setattr(doctor, "serving", lambda _settings: next(seen))
    monkeypatch.setattr(ready_command, "POLL_S", 0)
    done = pochade("ready")
    assert (done.exit_code, done.stderr) == (0, "waiting for plan, workers\nwaiting for workers\n")
    assert done.stdout == "ready after 0 s: a request would be served; the gateway here answers\n"


@pytest.mark.usefixtures("deployment")
def test_ready_that_waited_long_enough_says_what_to_do_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "serving", lambda _settings: [fail("plan", "none was published", "start a planner")])
    done = pochade("ready", "--within", "0s")
    assert done.exit_code == 1
    assert "none was published" in done.stdout
    assert "-> start a planner" in done.stdout

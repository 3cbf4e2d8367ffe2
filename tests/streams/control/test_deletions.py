"""What was deleted unread is found by committed offsets below a log's first, and kept until an audit reads it."""

from collections.abc import Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from replay.verify.audit.figures import verdict
from replay.verify.audit.topic_figures import TopicFigures
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, DLQ, IMAGES, PROMPTS, reader
from streams.control import deletions
from streams.control.deletions import Deletion, find, merged, read_deletion, report
from streams.kafka.consumers import offsets
from streams.metrics import DELETED_UNREAD
from streams.operator.dead_letters import NotRedrivable, dead_letter_of, redrive_record
from streams.settings import load
from tests.agents.stubs import a_record
from tests.memory_kafka import MemoryRecordProducer

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})


class Cluster:
    """One topic per group: what the group has committed, and where the log begins."""

    def __init__(self, begun: Mapping[str, Mapping[int, int]], firsts: Mapping[str, Mapping[int, int]]) -> None:
        self.begun, self.firsts = {name: dict(each) for name, each in begun.items()}, firsts
        self.asked = 0
        self.reads_on: dict[str, dict[int, int]] = {}  # what is committed at the second question

    def list_topics(self, topic: str, timeout: float) -> Any:  # noqa: ARG002
        class Found:
            error = None
            partitions: Mapping[int, int]

        found = Found()
        found.partitions = self.firsts[topic]
        return type("Listed", (), {"topics": {topic: found}})

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:  # noqa: ARG002
        self.asked += 1
        begun = self.begun | (self.reads_on if self.asked > 1 else {})
        return [TopicPartition(p.topic, p.partition, begun[p.topic].get(p.partition, -1001)) for p in partitions]

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:  # noqa: ARG002
        return self.firsts[partition.topic][partition.partition], 1000

    def close(self) -> None: ...


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(
        {f"pochade.{PROMPTS}": {0: 10, 1: 90, 2: 40}, f"pochade.{IMAGES}": {}},
        {f"pochade.{PROMPTS}": {0: 60, 1: 60, 2: 41, 3: 60}, f"pochade.{IMAGES}": {0: 7}},
    )
    monkeypatch.setattr(deletions, "own_topics", lambda _settings: [*made.firsts, f"pochade.{DLQ}"])
    monkeypatch.setattr(offsets, "_client", lambda _settings, _group: made)
    return made


GONE = [Deletion(PROMPTS, 0, 10, 60), Deletion(PROMPTS, 2, 40, 41)]


@pytest.mark.usefixtures("cluster")
def test_records_below_a_logs_first_offset_that_a_group_had_not_committed_are_deleted_unread() -> None:
    """A partition without a commit tells nothing: its group may have read all before its offsets expired."""
    assert find(SETTINGS) == GONE
    assert sum(each.records for each in GONE) == 51
    assert find(SETTINGS, ["discriminator"]) == []


def test_what_a_reader_commits_while_it_is_looked_for_is_not_deleted_unread(cluster: Cluster) -> None:
    cluster.reads_on = {f"pochade.{PROMPTS}": {0: 60, 1: 90, 2: 40}}
    assert find(SETTINGS) == GONE[1:]


@pytest.mark.usefixtures("cluster")
def test_a_role_keeps_what_it_finds_at_its_start_until_an_audit_says_so() -> None:
    producer, before = MemoryRecordProducer(), DELETED_UNREAD.labels("classifier")._value.get()
    for _ in range(3):  # as a role that is restarted before it commits
        report(SETTINGS, ["classifier", "router"], producer)
    assert DELETED_UNREAD.labels("classifier")._value.get() - before == 3 * 51
    letters = [incoming(each.headers, offset) for offset, each in enumerate(producer.topics[DLQ])]
    assert [read_deletion(each) for each in letters] == GONE * 3
    figures = TopicFigures({})
    for letter in letters:
        figures.add(letter)
    assert len(figures.figures().deleted_unread) == 2
    assert verdict(figures.figures()) == (
        "up to 50 records of prompts.v1 at 0@10 to 59 were deleted before they were read; "
        "up to 1 records of prompts.v1 at 2@40 to 40 were deleted before they were read"
    )


@pytest.mark.usefixtures("cluster")
def test_what_was_deleted_cannot_be_redriven() -> None:
    producer = MemoryRecordProducer()
    report(SETTINGS, ["classifier"], producer)
    with pytest.raises(NotRedrivable, match="records that were deleted; their requests must be sent again"):
        redrive_record(dead_letter_of(incoming(producer.topics[DLQ][0].headers, 0)), {})


def test_a_role_that_may_not_look_serves_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    monkeypatch.setattr(deletions, "own_topics", lambda _settings: [f"pochade.{PROMPTS}"])
    monkeypatch.setattr(deletions, "deleted", refuse)
    report(SETTINGS, ["classifier"], MemoryRecordProducer())


def test_each_offset_is_counted_once_however_often_it_was_found() -> None:
    found = [(0, 10, 20), (0, 15, 30), (0, 30, 31), (0, 40, 50), (1, 10, 20), (0, 10, 20)]
    assert merged(Deletion(PROMPTS, *each) for each in found) == [
        Deletion(PROMPTS, 0, 10, 31), Deletion(PROMPTS, 0, 40, 50), Deletion(PROMPTS, 1, 10, 20),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"until": b"1"},
        {"until": b"x"},
        {"offset": b""},
        {"partition": b"-1"},
        {"topic": b"dlq.v1"},
        {"class": b"Gone"},
    ],
)
def test_a_dead_letter_with_foreign_headers_is_no_deletion(changed: Mapping[str, bytes]) -> None:
    facts = {
        "class": b"DeletedUnread",
        "topic": CLASSIFIED.encode(),
        "partition": b"0",
        "offset": b"10",
        "until": b"20",
    }
    assert read_deletion(incoming({f"pochade_error_{name}": value for name, value in facts.items()}, 0)) is not None
    assert (
        read_deletion(incoming({f"pochade_error_{name}": value for name, value in (facts | changed).items()}, 0))
        is None
    )


def incoming(headers: Mapping[str, bytes], offset: int) -> Incoming:
    return a_record(topic=DLQ, key=b"", value=b"", offset=offset, headers=headers)


def test_topics_of_variants_have_the_group_of_their_workers_or_of_the_routers() -> None:
    assert reader("jobs.sd-xl.v1") == ("worker", "worker.sd-xl")
    assert reader("waiting.light.v1") == ("router", "waiting")
    assert reader("fleet.v1") is None

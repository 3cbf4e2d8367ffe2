# ruff: noqa: ARG002  the client names its arguments
"""The consumer of waiting jobs on a scripted client: what it takes, commits, and hands over."""

from collections.abc import Collection
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition

from agents.router.waiting import source as waiting_source
from agents.router.waiting.source import WaitingSource
from streams.kafka.consumers import consumer_factory
from streams.settings import load

LIGHT, HEAVY = "pochade.waiting.light.v1", "pochade.waiting.heavy.v1"


def a_message(topic: str, offset: int) -> Message:
    """A job as the client hands it out."""
    return Message(topic=topic, partition=0, offset=offset, key=b"k", value=b"v", timestamp=(1, 5))


class FakeConsumer:
    """Hands out `log`; keeps what is committed, and how."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.log: list[Message] = []
        self.metadata: dict[str, tuple[int, str]] = {}
        self.commits: list[tuple[str, int, str, bool]] = []
        self.paused: list[str] = []

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.topics, self.gain, self.lose = topics, callbacks["on_assign"], callbacks["on_revoke"]

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(tp.topic, tp.partition, *self.metadata.get(tp.topic, (0, ""))) for tp in partitions]

    def poll(self, timeout: float) -> Message | None:
        return self.log.pop(0) if self.log else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        taken, self.log = self.log[:most], self.log[most:]
        return taken

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.commits += [(tp.topic, tp.offset, tp.metadata or "", asynchronous) for tp in offsets]

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused += [tp.topic for tp in partitions]


Lost = list[tuple[str, list[int]]]


@pytest.fixture
def lost() -> Lost:
    return []


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, lost: Lost) -> WaitingSource:
    monkeypatch.setattr(consumer_factory, "Consumer", FakeConsumer)
    monkeypatch.setattr(waiting_source, "member_config", lambda *_: {})

    def on_lost(variant: str, partitions: Collection[int]) -> None:
        lost.append((variant, list(partitions)))

    settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
    return WaitingSource(settings, ["heavy", "light"], on_lost)


@pytest.fixture
def consumer(source: WaitingSource) -> FakeConsumer:
    return source._consumer  # type: ignore[return-value]


def own(consumer: FakeConsumer, *topics: str) -> None:
    consumer.gain(consumer, [TopicPartition(topic, 0) for topic in topics])


def taken(source: WaitingSource) -> list[tuple[str, int]]:
    return [(source.variant_of(record), record.offset) for record in source.take(100, 0)]


def test_it_reads_the_queues_of_all_variants_and_takes_those_that_it_is_given(
    source: WaitingSource, consumer: FakeConsumer
) -> None:
    assert consumer.topics == [HEAVY, LIGHT]
    own(consumer, LIGHT)
    consumer.log = [a_message(LIGHT, 0), a_message(HEAVY, 0), a_message(LIGHT, 1)]
    assert taken(source) == [("light", 0), ("light", 1)]


def test_a_new_owner_takes_what_the_last_one_has_not_forwarded_and_goes_on_from_there(
    source: WaitingSource, consumer: FakeConsumer
) -> None:
    consumer.metadata[LIGHT] = 5, "until=8 open=0,2"
    own(consumer, LIGHT)
    consumer.log = [a_message(LIGHT, offset) for offset in range(5, 10)]
    records = source.take(100, 0)
    assert [record.offset for record in records] == [5, 7, 8, 9]
    source.went(records[0])
    source.went(records[2])
    source.commit()
    source.commit()
    assert consumer.commits == [(LIGHT, 7, "until=9 open=0", True)]


def test_a_queue_is_committed_after_its_owner_has_said_what_was_written_and_then_is_another_ones(
    source: WaitingSource, consumer: FakeConsumer, lost: Lost
) -> None:
    own(consumer, LIGHT, HEAVY)
    consumer.log = [a_message(LIGHT, 0), a_message(LIGHT, 1)]
    records = source.take(100, 0)
    source._on_lost = lambda variant, numbers: (lost.append((variant, list(numbers))), source.went(records[0]))[0]  # type: ignore[assignment]
    consumer.lose(consumer, [TopicPartition(LIGHT, 0)])
    assert lost == [("light", [0])]
    assert consumer.commits == [(LIGHT, 1, "", False)]
    source.went(records[1])  # too late: the next owner forwards it
    source.commit()
    assert len(consumer.commits) == 1
    consumer.log = [a_message(LIGHT, 2)]
    assert taken(source) == []


def test_one_variant_is_paused_alone(source: WaitingSource, consumer: FakeConsumer) -> None:
    own(consumer, LIGHT, HEAVY)
    source.pause("heavy", is_paused=True)
    assert consumer.paused == [HEAVY]

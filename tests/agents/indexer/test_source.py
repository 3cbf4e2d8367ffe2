"""How the index writer reads `results`: what a newer release wrote waits, and nothing behind it overtakes it."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from agents.indexer import source as reading
from agents.indexer.source import COUNT_S, ResultSource
from schemas.errors import PochadeError
from schemas.registry import by_id
from schemas.topics import RESULTS
from streams.codec.avro import HEAD
from streams.settings import load

TOPIC = f"pochade.{RESULTS}"
OF_TOMORROW = HEAD.pack(0, len(by_id()) + 1)
OLD = HEAD.pack(0, 1)


def a_message(partition: int, offset: int, value: bytes) -> Message:
    """A record of `results`."""
    return Message(topic=TOPIC, partition=partition, offset=offset, key=b"r", value=value, timestamp=(1, 1))


class Consumer:
    """A consumer of a topic in memory."""

    def __init__(self) -> None:
        self.polled: list[Message] = []
        self.paused, self.sought, self.partitions = set[int](), dict[int, int](), 2
        self.failure: Exception | None = None

    def subscribe(self, _topics: list[str], *, on_assign: Any, on_revoke: Any, on_lost: Any) -> None:
        del on_lost
        self.gain, self.lose = on_assign, on_revoke

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {each.partition for each in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {each.partition for each in partitions}

    def seek(self, place: TopicPartition) -> None:
        self.sought[place.partition] = place.offset

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        if self.failure is not None:
            raise self.failure
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=dict.fromkeys(range(self.partitions)))})


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Consumer:
    consumer = Consumer()
    monkeypatch.setattr(reading, "open_member", lambda *_config: consumer)
    monkeypatch.setattr(reading, "member_config", lambda *_about: {})
    monkeypatch.setattr(reading, "IdleMember", lambda *_about: SimpleNamespace(check=lambda *_about, **_how: None))

    def take(_consumer: Consumer, _most: int, _timeout_s: float) -> list[Message]:
        polled, consumer.polled = consumer.polled, []
        return polled

    monkeypatch.setattr(reading, "take", take)
    return consumer


@pytest.fixture
def source(consumer: Consumer) -> ResultSource:
    source = ResultSource(load({}))
    consumer.gain(consumer, [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)])
    return source


def taken(source: ResultSource) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in source.take(100, 0.0)]


def test_a_newer_release_s_result_waits_and_its_partition_with_it(
    consumer: Consumer, source: ResultSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer.polled = [a_message(0, 0, OLD), a_message(0, 1, OF_TOMORROW), a_message(0, 2, OLD), a_message(1, 0, OLD)]
    assert taken(source) == [(0, 0), (1, 0)]
    assert consumer.paused == {0}
    assert f"unknown schema id {len(by_id()) + 1} of topic {RESULTS} at 0@1" in source.waits_for
    monkeypatch.setattr("streams.codec.schema_wait.awaited_schema", lambda _data: None)  # its schema is learnt
    assert taken(source) == [(0, 1), (0, 2)]
    assert (consumer.paused, source.waits_for) == (set(), "")


def test_what_is_read_again_is_not_served_twice(consumer: Consumer, source: ResultSource) -> None:
    consumer.polled = [a_message(0, 0, OLD), a_message(0, 1, OF_TOMORROW)]
    batch = source.take(100, 0.0)
    source.rewind(batch)  # a store was away
    assert (consumer.sought, consumer.paused) == ({0: 0}, set())
    consumer.polled = [a_message(0, 0, OLD), a_message(0, 1, OF_TOMORROW)]
    assert taken(source) == [(0, 0)]
    assert consumer.paused == {0}


def test_what_waits_on_a_partition_that_is_taken_away_is_its_new_owner_s(
    consumer: Consumer, source: ResultSource
) -> None:
    consumer.polled = [a_message(0, 1, OF_TOMORROW)]
    assert taken(source) == []
    consumer.lose(consumer, [TopicPartition(TOPIC, 0)])
    assert (source.waits_for, source.owned) == ("", {1})


def test_the_topic_s_partitions_are_counted_once_a_minute(
    consumer: Consumer, source: ResultSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("agents.indexer.source.time.monotonic", lambda: now_s[0])
    assert source.partitions == 2
    consumer.partitions = 5
    assert source.partitions == 2
    now_s[0] += COUNT_S
    assert source.partitions == 5
    now_s[0] += COUNT_S
    consumer.failure = KafkaException(KafkaError(KafkaError._TRANSPORT))
    with pytest.raises(PochadeError, match=f"how many partitions {TOPIC} has"):
        assert source.partitions

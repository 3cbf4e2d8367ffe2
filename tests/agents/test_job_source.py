# ruff: noqa: ARG002  the ports name their arguments
"""A worker's job source on a scripted consumer: attempts, batches, and partitions taken away meanwhile."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from agents import job_source
from agents.job_source import JobSource
from streams.settings import load

TOPIC = "pochade.jobs.light.v1"


class FakeMessage:
    def __init__(self, partition: int, offset: int) -> None:
        self._partition, self._offset = partition, offset

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return (1, 5)

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"


class FakeConsumer:
    """Hands out `log` in order; a callable in it is called instead, as a rebalance within a poll is."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.log: list[Any] = []
        self.metadata: dict[int, tuple[int, str]] = {}
        self.committed_to: list[tuple[int, int, str]] = []
        self.failure: KafkaException | None = None

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        self.gain, self.lose = callbacks["on_assign"], callbacks["on_revoke"]

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(tp.topic, tp.partition, *self.metadata.get(tp.partition, (-1001,))) for tp in partitions]

    def _next(self) -> FakeMessage | None:
        while self.log and callable(self.log[0]):
            self.log.pop(0)()
        return self.log.pop(0) if self.log else None

    def poll(self, timeout: float) -> FakeMessage | None:
        return self._next()

    def consume(self, most: int, timeout: float) -> list[FakeMessage]:
        return [m for m in (self._next() for _ in range(most)) if m is not None]

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        if self.failure is not None:
            raise self.failure
        self.committed_to += [(tp.partition, tp.offset, tp.metadata) for tp in offsets]


class FakeAdmin:
    def __init__(self, config: dict[str, Any]) -> None: ...


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> JobSource:
    monkeypatch.setattr(job_source, "Consumer", FakeConsumer)
    monkeypatch.setattr(job_source, "AdminClient", FakeAdmin)
    return JobSource(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), "light")


@pytest.fixture
def consumer(source: JobSource) -> FakeConsumer:
    return source._consumer  # type: ignore[return-value]


def own(consumer: FakeConsumer, *partitions: int) -> None:
    consumer.gain(consumer, [TopicPartition(TOPIC, p) for p in partitions])


def places(batch: list[job_source.Taken]) -> list[tuple[int, int, int]]:
    return [(taken.record.partition, taken.record.offset, taken.attempt) for taken in batch]


def test_a_batch_over_partitions_commits_past_the_last_of_each(source: JobSource, consumer: FakeConsumer) -> None:
    own(consumer, 0, 1)
    consumer.log = [FakeMessage(0, 5), FakeMessage(1, 8), FakeMessage(0, 6)]
    batch = source.take(4, 0)
    source.begin(batch)
    source.commit(batch)
    assert places(batch) == [(0, 5, 1), (1, 8, 1), (0, 6, 1)]
    assert consumer.committed_to == [(0, 5, "attempt=1"), (1, 8, "attempt=1"), (0, 7, ""), (1, 9, "")]


def test_a_job_over_which_the_owner_died_comes_alone_and_with_its_attempts(
    source: JobSource, consumer: FakeConsumer
) -> None:
    consumer.metadata = {0: (5, "attempt=2")}
    own(consumer, 0)
    consumer.log = [FakeMessage(0, 5), FakeMessage(0, 6), FakeMessage(0, 7)]
    assert places(source.take(4, 0)) == [(0, 5, 3)]
    assert places(source.take(4, 0)) == [(0, 6, 1), (0, 7, 1)]


def test_attempts_belong_to_their_offset_only(source: JobSource, consumer: FakeConsumer) -> None:
    consumer.metadata = {0: (5, "attempt=2")}
    own(consumer, 0)
    consumer.log = [FakeMessage(0, 9)]  # 5 to 8 were deleted by retention
    assert places(source.take(1, 0)) == [(0, 9, 1)]


def test_jobs_of_a_partition_taken_away_meanwhile_are_left_to_its_new_owner(
    source: JobSource, consumer: FakeConsumer
) -> None:
    own(consumer, 0, 1)
    lose = lambda: consumer.lose(consumer, [TopicPartition(TOPIC, 0)])  # noqa: E731
    consumer.log = [FakeMessage(0, 5), lose, FakeMessage(1, 8)]
    assert places(source.take(4, 0)) == [(1, 8, 1)]
    assert source._next == {1: 9}


def test_a_refused_commit_is_survived(source: JobSource, consumer: FakeConsumer) -> None:
    own(consumer, 0)
    consumer.log = [FakeMessage(0, 5), FakeMessage(0, 6)]
    consumer.failure = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
    batch = source.take(1, 0)
    source.begin(batch)
    source.commit(batch)
    assert places(source.take(1, 0)) == [(0, 6, 1)]

"""A window of topics that is read while brokers restart: what passes is waited out, what does not is raised at once."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from tenacity import wait_none

from schemas.errors import PochadeError
from streams.kafka import errors
from streams.kafka.consumers import consumer_factory, snapshot
from streams.settings import Kafka, Settings

NAME = "pochade.prompts.v1"
SETTINGS = Settings(kafka=Kafka(bootstrap_servers="nowhere:1"))


class Metadata(NamedTuple):
    """Of a topic, or of all of them."""

    topics: dict[str, Any]
    partitions: dict[int, object]
    error: KafkaError | None = None


def a_record(offset: int, error: int | None = None) -> Message:
    """A message of partition 0, or an error in place of one."""
    failure = None if error is None else KafkaError(error)
    return Message(
        topic=NAME, partition=0, offset=offset, key=b"", value=b"%d" % offset, timestamp=(1, 0), error=failure
    )


class Broker:
    """Stands in for a consumer: partition 0 holds two records, and the first answers are these errors."""

    def __init__(self, metadata: Sequence[int] = (), times: Sequence[int] = (), fetches: Sequence[int] = ()) -> None:
        self._metadata, self._times = list(metadata), list(times)
        self._messages = [*(a_record(0, error) for error in fetches), a_record(0), a_record(1)]
        self.is_closed = False

    def list_topics(self, name: str, timeout: float) -> Metadata:  # noqa: ARG002
        if self._metadata:
            raise KafkaException(KafkaError(self._metadata.pop(0)))
        return Metadata({name: Metadata({}, {0: None})}, {})

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:  # noqa: ARG002
        if self._times:
            raise KafkaException(KafkaError(self._times.pop(0)))
        return [TopicPartition(tp.topic, tp.partition, 0 if tp.offset < 50 else 2) for tp in asked]

    def assign(self, wanted: list[TopicPartition]) -> None:
        assert [(tp.partition, tp.offset) for tp in wanted] == [(0, 0)]

    def poll(self, timeout: float) -> Message | None:  # noqa: ARG002
        return self._messages.pop(0) if self._messages else None

    def consume(self, most: int, timeout: float) -> list[Message]:  # noqa: ARG002
        return []

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Broker], list[bytes | None]]:
    monkeypatch.setattr(errors, "RETRY_WAIT", wait_none())
    monkeypatch.setattr(snapshot, "MAX_SILENCE_S", 0.3)

    def read(broker: Broker) -> list[bytes | None]:
        monkeypatch.setattr(consumer_factory, "Consumer", lambda _config: broker)
        found = [record.value for record in snapshot.between(SETTINGS, ["prompts.v1"], 0, 100)]
        assert broker.is_closed
        return found

    return read


@pytest.mark.parametrize(
    "error", [KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError.LEADER_NOT_AVAILABLE,
              KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.REQUEST_TIMED_OUT, KafkaError.UNKNOWN_LEADER_EPOCH]
)  # fmt: skip
def test_what_passes_is_asked_again(read: Callable[[Broker], list[bytes]], error: int) -> None:
    assert read(Broker(metadata=[error, error], times=[error], fetches=[error, error])) == [b"0", b"1"]


def test_what_does_not_pass_is_reported_at_once(read: Callable[[Broker], list[bytes]]) -> None:
    for broker in (
        Broker(metadata=[KafkaError.TOPIC_AUTHORIZATION_FAILED]),
        Broker(times=[KafkaError.TOPIC_AUTHORIZATION_FAILED]),
        Broker(fetches=[KafkaError.TOPIC_AUTHORIZATION_FAILED]),
    ):
        with pytest.raises(PochadeError, match=r"cannot read prompts\.v1 of pochade: .*authorization failed"):
            read(broker)


def test_errors_without_end_are_no_sign_of_life(read: Callable[[Broker], list[bytes]]) -> None:
    class Gone(Broker):
        def poll(self, timeout: float) -> Message | None:  # noqa: ARG002
            return a_record(0, KafkaError._TRANSPORT)

    with pytest.raises(PochadeError, match="is the broker reachable"):
        read(Gone())

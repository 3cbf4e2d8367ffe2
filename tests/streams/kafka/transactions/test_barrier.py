# ruff: noqa: ARG002  the client's own names
"""Reading to the end of a log that a stale leader ends too early, on a scripted consumer and producer."""

from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from streams.kafka.transactions import barrier
from streams.kafka.transactions.barrier import Barrier, read_past, read_to_end, write_barrier

START = TopicPartition("t", 0, 0)
EOF = KafkaError._PARTITION_EOF


def a_message(offset: int, error: int | None = None, kind: int = TIMESTAMP_LOG_APPEND_TIME) -> Message:
    """A record, or an error, at an offset."""
    return Message(offset=offset, error=None if error is None else KafkaError(error), timestamp=(kind, 1234))


class Log:
    """Returns this script, one poll after the other; None: silence."""

    def __init__(self, *script: Message | None) -> None:
        self.script, self.refreshed = list(script), 0

    def assign(self, places: list[TopicPartition]) -> None: ...

    def poll(self, timeout: float) -> Message | None:
        return self.script.pop(0) if self.script else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        return []

    def list_topics(self, topic: str, timeout: float) -> None:
        self.refreshed += 1


def read(log: Log, beyond: int | None) -> list[int]:
    offsets: list[int] = []

    def on_records(records: Any) -> None:
        offsets.extend(record.offset() for record in records)

    if beyond is None:
        read_to_end(log, START, on_records)  # type: ignore[arg-type]
    else:
        read_past(log, START, Barrier(beyond, 0), on_records)  # type: ignore[arg-type]
    return offsets


def test_the_end_that_a_stale_leader_tells_is_not_the_end() -> None:
    log = Log(a_message(0), a_message(1), a_message(2, EOF), None, a_message(2), a_message(5, EOF), a_message(9))
    assert read(log, beyond=3) == [0, 1, 2]
    assert log.refreshed >= 1, "who leads was not asked for"


def test_a_record_behind_the_barrier_is_past_it_too() -> None:
    assert read(Log(a_message(0), a_message(7), a_message(8)), beyond=3) == [0, 7]


def test_an_end_at_the_barrier_itself_is_before_it() -> None:
    assert read(Log(a_message(3, EOF), a_message(3), a_message(4, EOF)), beyond=3) == [3]


def test_without_a_barrier_any_end_is_the_end() -> None:
    assert read(Log(a_message(0), a_message(1, EOF), a_message(1)), beyond=None) == [0]
    assert read(Log(a_message(0, EOF)), beyond=None) == []


def test_what_passes_by_itself_is_waited_out_and_the_rest_raises() -> None:
    assert read(Log(a_message(0, KafkaError._TRANSPORT), a_message(0), a_message(9, EOF)), beyond=3) == [0]
    with pytest.raises(KafkaException):
        read(Log(a_message(0, KafkaError.TOPIC_AUTHORIZATION_FAILED)), beyond=3)


def test_a_log_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(barrier, "SILENT_S", 0.01)
    with pytest.raises(KafkaException, match="silent"):
        read(Log(), beyond=3)


class Writing:
    """A transactional producer whose record is reported so."""

    def __init__(self, *report: Any) -> None:
        self._report, self.calls = report, list[str]()

    def produce(self, *record: Any, partition: int, on_delivery: Any) -> None:
        self.calls.append("produce")
        if self._report:
            on_delivery(*self._report)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.calls.append(name)


def test_a_barrier_lies_where_it_was_acknowledged_and_is_never_committed() -> None:
    producer = Writing(None, a_message(41))
    assert write_barrier(producer, "t", 0, 1) == Barrier(41, 1234)  # type: ignore[arg-type]
    assert producer.calls == ["begin_transaction", "produce", "flush", "abort_transaction"]
    assert not write_barrier(Writing(None, a_message(0, None, TIMESTAMP_CREATE_TIME)), "t", 0, 1).is_brokers_time  # type: ignore[arg-type]


@pytest.mark.parametrize("report", [(), (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), a_message(0))])
def test_a_barrier_that_was_not_taken_raises(report: tuple[Any, ...]) -> None:
    with pytest.raises(KafkaException):
        write_barrier(Writing(*report), "t", 0, 1)  # type: ignore[arg-type]

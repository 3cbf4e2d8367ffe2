# ruff: noqa: ARG002  the client's own names
"""Records and ends of partitions out of what a client returns, and where a moment lies."""

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from streams.kafka.consumers.polling import offsets_at, poll_records


def a_message(offset: int, error: int | None = None) -> Message:
    return Message(offset=offset, error=None if error is None else KafkaError(error))


class Client:
    """Returns these messages at once, and these answers about times, one after the other."""

    def __init__(self, *messages: Message, answers: tuple[TopicPartition, ...] = ()) -> None:
        self.messages, self.answers = list(messages), list(answers)

    def poll(self, timeout: float) -> Message | None:
        return self.messages.pop(0) if self.messages else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        return self.messages[:most]

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [self.answers.pop(0)]


def test_records_and_ends_are_told_apart_and_what_passes_is_left_out() -> None:
    client = Client(
        a_message(0), a_message(1, KafkaError._TRANSPORT), a_message(2), a_message(3, KafkaError._PARTITION_EOF)
    )
    polled = poll_records(client, 10, 0.0)  # type: ignore[arg-type]
    assert [record.offset() for record in polled.records] == [0, 2]
    assert [end.offset() for end in polled.ends] == [3]
    assert poll_records(client, 1, 0.0).records == []  # type: ignore[arg-type]


def test_a_missing_right_ends_the_reading() -> None:
    client = Client(a_message(0), a_message(-1, KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException):
        poll_records(client, 10, 0.0)  # type: ignore[arg-type]


def test_a_moment_behind_all_records_lies_nowhere() -> None:
    client = Client(answers=(TopicPartition("t", 3, -1),))
    assert offsets_at(client, "t", [3], 5, 1.0) == {3: -1}  # type: ignore[arg-type]

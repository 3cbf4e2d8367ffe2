"""Ends of logs, as given by brokers that were frozen and do not know that they lead no more."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from replay.verify.audit import logs
from replay.verify.audit.logs import Logs
from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.kafka.consumers import consumer_factory
from streams.settings import Settings

NAME = f"pochade.{RESULTS}"
Said = tuple[str, int]  # "record" or "end", and its offset


def a_message(said: Said) -> Message:
    """A record, an end of the log or an error."""
    kind, offset = said
    codes = {"end": KafkaError._PARTITION_EOF, "denied": KafkaError.TOPIC_AUTHORIZATION_FAILED}
    error = KafkaError(codes[kind]) if kind in codes else None
    key = f"r-{offset}".encode()
    return Message(topic=NAME, partition=0, offset=offset, key=key, value=b"", timestamp=(1, offset), error=error)


class Brokers:
    """The ends that each client after the other is given; one more for each time it asks again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *clients: Sequence[Sequence[Said]]) -> None:
        self._clients = list(clients)
        self.began: list[int] = []  # where clients began to read
        monkeypatch.setattr(consumer_factory, "Consumer", lambda _config: self)
        monkeypatch.setattr(logs, "RETRY_S", 0.0)
        monkeypatch.setattr(consumer_factory, "client_config", lambda _settings: {})

    def list_topics(self, name: str, timeout: float) -> Any:  # noqa: ARG002
        return SimpleNamespace(topics={name: SimpleNamespace(error=None, partitions={0: None})})

    def get_watermark_offsets(self, _partition: TopicPartition, timeout: float) -> tuple[int, int]:  # noqa: ARG002
        return 0, 3

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.began += [tp.offset for tp in partitions]
        self._answers = [list(answer) for answer in self._clients.pop(0)]

    def seek(self, partition: TopicPartition) -> None:
        self.began.append(partition.offset)

    def poll(self, _timeout: float) -> Message | None:
        while self._answers and not self._answers[0]:
            self._answers.pop(0)
        return a_message(self._answers[0].pop(0)) if self._answers else None

    def consume(self, _most: int, _timeout: float) -> list[Message]:
        return []

    def close(self) -> None:
        pass


def records(*offsets: int) -> list[Said]:
    return [("record", offset) for offset in offsets]


@pytest.fixture
def taken() -> list[Incoming]:
    return []


def offsets(taken: list[Incoming]) -> list[int]:
    return [record.offset for record in taken]


def test_an_end_below_what_was_seen_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, taken: list[Incoming]) -> None:
    brokers = Brokers(monkeypatch, [[*records(0, 1, 2), ("end", 1)], [*records(3), ("end", 4)]])
    Logs(Settings(), taken.append).read([RESULTS])
    assert offsets(taken) == [0, 1, 2, 3]
    assert brokers.began == [0, 3]


def test_an_end_below_what_a_role_has_committed_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, taken: list[Incoming]
) -> None:
    Brokers(monkeypatch, [[*records(0), ("end", 1)], [*records(1), ("end", 2)]])
    Logs(Settings(), taken.append, {(RESULTS, 0): 2}).read([RESULTS])
    assert offsets(taken) == [0, 1]


def test_a_fresh_client_finds_what_the_first_was_not_told(
    monkeypatch: pytest.MonkeyPatch, taken: list[Incoming]
) -> None:
    Brokers(monkeypatch, [[*records(0), ("end", 1)]], [[*records(1, 2), ("end", 3)]], [[("end", 3)]])
    read = Logs(Settings(), taken.append)
    read.read([RESULTS])
    assert (offsets(taken), read.read_on(), read.read_on()) == ([0], 2, 0)
    assert offsets(taken) == [0, 1, 2]


def test_a_record_that_is_handed_out_again_is_taken_once(
    monkeypatch: pytest.MonkeyPatch, taken: list[Incoming]
) -> None:
    Brokers(monkeypatch, [[*records(0, 1, 0, 1, 2), ("end", 3)]])
    Logs(Settings(), taken.append).read([RESULTS])
    assert offsets(taken) == [0, 1, 2]


def test_an_end_that_stays_too_early_is_believed_in_the_end(
    monkeypatch: pytest.MonkeyPatch, taken: list[Incoming]
) -> None:
    monkeypatch.setattr(logs, "DOUBT_S", 0.0)
    Brokers(monkeypatch, [[*records(0), ("end", 1)]])
    Logs(Settings(), taken.append, {(RESULTS, 0): 9}).read([RESULTS])
    assert offsets(taken) == [0]


def test_what_does_not_pass_is_reported(monkeypatch: pytest.MonkeyPatch, taken: list[Incoming]) -> None:
    Brokers(monkeypatch, [[("denied", 0)]])
    with pytest.raises(PochadeError, match="cannot read the topics of pochade"):
        Logs(Settings(), taken.append).read([RESULTS])

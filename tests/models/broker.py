# ruff: noqa: ARG002  the clients' shapes
"""As much of Kafka as the ledger's promise rests on: logs, transactions, fencing, committed offsets, retention."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from agents import lane
from schemas.record import Incoming
from streams import transactions

Place = tuple[str, int]  # topic with prefix, partition


class Crash(Exception):
    """The process is killed here."""


class Written(NamedTuple):
    """One record as it lies in a log."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    at_ms: int


@dataclass
class Broker:
    """What survives every crash."""

    now_ms: int = 0
    logs: defaultdict[Place, list[Written]] = field(default_factory=lambda: defaultdict(list))
    begins: defaultdict[Place, int] = field(default_factory=lambda: defaultdict(int))  # what retention has left
    committed: dict[Place, int] = field(default_factory=dict)
    epochs: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def append(self, place: Place, key: bytes | None, value: bytes | None, headers: dict[str, bytes]) -> None:
        self.logs[place].append(Written(key, value, tuple(headers.items()), self.now_ms))

    def forget(self, topic: str, older_than_ms: int) -> None:
        """Retention, on every partition of a topic."""
        for place, log in self.logs.items():
            if place[0] == topic:
                while self.begins[place] < len(log) and log[self.begins[place]].at_ms < older_than_ms:
                    self.begins[place] += 1

    def read(self, place: Place, since: int, most: int) -> list[Incoming]:
        log, begin = self.logs[place], max(since, self.begins[place])
        return [
            Incoming(
                topic=place[0].removeprefix("pochade."), partition=place[1], offset=offset, timestamp_ms=each.at_ms,
                key=each.key, value=each.value, headers=dict(each.headers),
            )
            for offset, each in enumerate(log[begin : begin + most], start=begin)
        ]  # fmt: skip


class Transactions:
    """One life's transactional producer. What is not committed is nowhere, so that a death before the commit stands for
    one at any step before it."""

    dies: str = ""  # "before" or "after" the next commit took effect

    def __init__(self, broker: Broker, config: dict[str, Any]) -> None:
        self._broker, self._id, self._epoch = broker, config["transactional.id"], -1
        self._open: list[tuple[Place, bytes | None, bytes | None, dict[str, bytes]]] = []

    def init_transactions(self, timeout_s: float) -> None:
        self._broker.epochs[self._id] += 1
        self._epoch = self._broker.epochs[self._id]

    def _check(self) -> None:
        if self._epoch != self._broker.epochs[self._id]:
            raise KafkaException(KafkaError(KafkaError._FENCED, fatal=True))

    def begin_transaction(self) -> None:
        self._open = []
        self._check()

    def produce(self, topic: str, value: bytes, key: bytes, headers: Sequence[tuple[str, bytes]], **where: int) -> None:
        self._open.append(((topic, where.get("partition", 0)), key, value, dict(headers)))

    def commit_transaction(self, timeout_s: float) -> None:
        """All or nothing."""
        dies, Transactions.dies = Transactions.dies, ""
        if dies == "before":
            raise Crash("before the commit")
        self._check()
        for place, key, value, headers in self._open:
            self._broker.append(place, key, value, headers)
        if dies == "after":
            raise Crash("after the commit, before the group's")


class Reader:
    """The consumer that reads `results` to its end."""

    def __init__(self, broker: Broker, config: dict[str, Any]) -> None:
        self._broker = broker

    def assign(self, places: list[TopicPartition]) -> None:
        (place,) = places
        self._messages: list[Any] = [
            Message(record) for record in self._broker.read((place.topic, place.partition), 0, 10**9)
        ]
        self._messages.append(End())

    def poll(self, timeout_s: float) -> Any:
        return self._messages.pop(0) if self._messages else None

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        taken, self._messages = self._messages[:most], self._messages[most:]
        return taken

    def close(self) -> None:
        """Nothing is held."""


class Message:
    def __init__(self, record: Incoming) -> None:
        self._record = record

    def error(self) -> None:
        return None

    def key(self) -> bytes | None:
        return self._record.key

    def timestamp(self) -> tuple[int, int]:
        return (1, self._record.timestamp_ms)


class End:
    def error(self) -> KafkaError:
        return KafkaError(KafkaError._PARTITION_EOF)


class Group:
    """The consumer that `outcomes` was read with."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        for tp in offsets:
            self._broker.committed[tp.topic, tp.partition] = tp.offset


@contextmanager
def connected(broker: Broker) -> Iterator[None]:
    """Lanes that are made or used in the block talk to this broker, on its clock."""
    with (
        mock.patch.object(transactions, "Producer", lambda config: Transactions(broker, config)),
        mock.patch.object(lane, "Consumer", lambda config: Reader(broker, config)),
        mock.patch.object(lane, "now_ms", side_effect=lambda: broker.now_ms),
    ):
        yield

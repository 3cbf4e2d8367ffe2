# ruff: noqa: ARG002  the clients' shapes
"""As much of Kafka as the ledger's promise rests on: logs, transactions, fencing, committed offsets, retention."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, TopicPartition

from agents.ledger import partition as lane
from agents.ledger.remembered import Send
from schemas.record import Delivered, Incoming, Outgoing
from streams import clock
from streams.kafka.consumers import consumer_factory
from streams.kafka.transactions import transactions

Place = tuple[str, int]  # topic with prefix, partition


class Crash(Exception):
    """The process is killed here."""


class Written(NamedTuple):
    """One record as it lies in a log."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    at_ms: int
    is_committed: bool = True  # else it only takes an offset: aborted, or a transaction's own marker


@dataclass
class Broker:
    """What survives every crash."""

    now_ms: int = 0
    logs: defaultdict[Place, list[Written]] = field(default_factory=lambda: defaultdict(list))
    begins: defaultdict[Place, int] = field(default_factory=lambda: defaultdict(int))  # what retention has left
    committed: dict[Place, int] = field(default_factory=dict)
    epochs: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    hidden: int = 0  # newest records that whoever answers does not have at first: it was frozen
    hanging: defaultdict[str, list[tuple[Place, int]]] = field(default_factory=lambda: defaultdict(list))
    """Transactional id -> offsets of records that were reported as committed and have no marker."""
    lost: list[tuple[Place, Written]] = field(default_factory=list)  # of these, what was aborted later
    takes: dict[str, int] = field(default_factory=dict)  # topic -> bytes of a record that it takes

    def append(
        self,
        place: Place,
        key: bytes | None,
        value: bytes | None,
        headers: Mapping[str, bytes],
        *,
        committed: bool = True,
    ) -> int:
        """The offset."""
        self.logs[place].append(Written(key, value, tuple(headers.items()), self.now_ms, committed))
        return len(self.logs[place]) - 1

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
            if each.is_committed
        ]  # fmt: skip

    def visible(self, topic: str, partition: int = 0) -> list[Written]:
        """What a reader of committed records finds; `topic` without the prefix."""
        return [each for each in self.logs[f"pochade.{topic}", partition] if each.is_committed]

    def at(self, place: Place, moment_ms: int) -> int:
        """The offset of the first record of this moment or later; -1: there is none."""
        log = self.logs[place]
        return next((o for o in range(self.begins[place], len(log)) if log[o].at_ms >= moment_ms), -1)


class Transactions:
    """One life's transactional producer. What is not committed is nowhere, so that a death before the commit stands for
    one at any step before it."""

    dies: str = ""  # "before" or "after" the next commit took effect
    breaks: str = ""  # so does the connection, and the process lives
    forgets: bool = False  # the next commit is reported, and its marker lost (KAFKA-20734)

    def __init__(self, broker: Broker, config: dict[str, Any]) -> None:
        self._broker, self._id, self._epoch = broker, config["transactional.id"], -1
        self._open: list[tuple[Place, bytes | None, bytes | None, dict[str, bytes], Any]] = []

    def init_transactions(self, timeout_s: float) -> None:
        self._broker.epochs[self._id] += 1
        self._epoch = self._broker.epochs[self._id]

    def _check(self) -> None:
        if self._epoch != self._broker.epochs[self._id]:
            raise KafkaException(KafkaError(KafkaError._FENCED, fatal=True))

    def begin_transaction(self) -> None:
        self._open = []
        self._check()

    def produce(
        self, topic: str, value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes]] = (),
        partition: int = 0, on_delivery: Any = None,
    ) -> None:  # fmt: skip
        self._open.append(((topic, partition), key, value, dict(headers), on_delivery))

    def flush(self, timeout_s: float) -> None:
        """Before an abort only: the records take their offsets, and are never seen."""
        self._append(committed=False)

    def abort_transaction(self, timeout_s: float) -> None:
        self._open = []

    def commit_transaction(self, timeout_s: float) -> None:
        """All or nothing."""
        dies, Transactions.dies = Transactions.dies, ""
        breaks, Transactions.breaks = Transactions.breaks, ""
        if dies == "before":
            raise Crash("before the commit")
        self._check()
        if breaks == "before":
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        for place, key, value, headers, _ in self._open:
            size = len(key or b"") + len(value or b"") + sum(len(k) + len(v) for k, v in headers.items())
            if size > self._broker.takes.get(place[0], size):
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        forgets, Transactions.forgets = Transactions.forgets, False
        self._append(committed=True, forgets=forgets)
        if dies == "after":
            raise Crash("after the commit, before the group's")
        if breaks == "after":
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _append(self, *, committed: bool, forgets: bool = False) -> None:
        if not forgets:
            self._close_hanging(committed=committed)
        for place, key, value, headers, on_delivery in self._open:
            offset = self._broker.append(place, key, value, headers, committed=committed and not forgets)
            if forgets:
                self._broker.hanging[self._id].append((place, offset))
            if on_delivery is not None:
                on_delivery(None, a_message(place, offset, self._broker.logs[place][offset]))
        for place in {place for place, *_ in self._open}:
            self._broker.append(place, None, None, {}, committed=False)
        self._open = []

    def _close_hanging(self, *, committed: bool) -> None:
        """The marker of this transaction holds for what the one before it left open on its partitions."""
        places, hanging = {place for place, *_ in self._open}, self._broker.hanging[self._id]
        for place, offset in [each for each in hanging if each[0] in places]:
            written = self._broker.logs[place][offset]
            self._broker.logs[place][offset] = written._replace(is_committed=committed)
            if not committed:
                self._broker.lost.append((place, written))
            hanging.remove((place, offset))


class Reader:
    """A consumer that reads a partition to its end."""

    def __init__(self, broker: Broker, config: dict[str, Any]) -> None:
        self._broker = broker
        self._messages: list[Any] = []

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [
            TopicPartition(tp.topic, tp.partition, self._broker.at((tp.topic, tp.partition), tp.offset)) for tp in asked
        ]

    def list_topics(self, topic: str, timeout: float) -> None:
        """Who leads is known."""

    def assign(self, places: list[TopicPartition]) -> None:
        (asked,) = places
        place = (asked.topic, asked.partition)
        log, begin = self._broker.logs[place], max(asked.offset, self._broker.begins[place])
        records = [a_message(place, o, log[o]) for o in range(begin, len(log)) if log[o].is_committed]
        hidden, self._broker.hidden = self._broker.hidden, 0
        if hidden:  # what is behind is met first
            end = max(begin, len(log) - hidden)
            seen = [record for record in records if record.offset() < end]
            self._messages = [*seen, an_end(place, end), None, *records[len(seen) :]]
        else:
            self._messages = [*records]
        self._messages.append(an_end(place, len(log)))

    def poll(self, timeout_s: float) -> Any:
        return self._messages.pop(0) if self._messages else None

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        upto = next((at for at, message in enumerate(self._messages) if message is None), len(self._messages))
        taken = self._messages[: min(most, upto)]
        del self._messages[: len(taken)]
        return taken

    def close(self) -> None:
        """Nothing is held."""


def a_message(place: Place, offset: int, written: Written) -> Message:
    when = (TIMESTAMP_LOG_APPEND_TIME, written.at_ms)
    topic, partition = place
    return Message(
        topic=topic, partition=partition, offset=offset, key=written.key, value=written.value, timestamp=when
    )


def an_end(place: Place, offset: int) -> Message:
    return Message(topic=place[0], partition=place[1], offset=offset, error=KafkaError(KafkaError._PARTITION_EOF))


class Group:
    """The consumer that `outcomes` was read with."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        for tp in offsets:
            self._broker.committed[tp.topic, tp.partition] = tp.offset


def sender(broker: Broker) -> Send:
    """Writes chunks of ended ids."""

    def send(record: Outgoing) -> "Future[Delivered]":
        place = (f"pochade.{record.topic}", record.partition or 0)
        future: Future[Delivered] = Future()
        future.set_result(Delivered(partition=place[1], offset=broker.append(place, record.key, record.value, {})))
        return future

    return send


@contextmanager
def connected(broker: Broker) -> Iterator[None]:
    """Ledger partitions that are made or used in the block talk to this broker, on its clock."""
    with (
        mock.patch.object(transactions, "Producer", lambda config: Transactions(broker, config)),
        mock.patch.object(consumer_factory, "Consumer", lambda config: Reader(broker, config)),
        mock.patch.object(clock, "now_ms", side_effect=lambda: broker.now_ms),
        mock.patch.object(lane, "now_ms", side_effect=lambda: broker.now_ms),
    ):
        yield

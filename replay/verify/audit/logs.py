"""Reads topics to their ends, and asks again whether those were the ends.

A broker that was frozen and goes on answers for a moment as if it still led, from a log that ends too early. So an
end below what was seen, or below what a role has committed, is none; and what a client was given at first is asked
again of a fresh one.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import full_name
from streams.kafka.consumers.consumer_factory import open_consumer
from streams.kafka.consumers.polling import Polled, incoming, offsets_at, poll_records
from streams.kafka.errors import partitions_of, patiently
from streams.settings import Settings

log = logging.getLogger(__name__)

Position = tuple[str, int]  # topic, partition
ANSWER_S = 30.0  # for brokers to report leaders and the ends of logs
READ_S = 600.0  # for all of a topic
DOUBT_S = 30.0  # an end that is too early is believed then: somebody made the topic anew
RETRY_S = 0.5  # until the same broker is asked again
BATCH = 10_000


class Logs:
    """`take` is called with each committed record once, in each partition's order."""

    def __init__(
        self, settings: Settings, take: Callable[[Incoming], None], at_least: Mapping[Position, int] | None = None
    ) -> None:
        """`at_least`: offsets below which no log ends, as somebody has committed them."""
        self._settings, self._take, self._at_least = settings, take, at_least or {}
        self._read_to: dict[Position, int] = {}  # the next offset of each partition
        self._taken = 0
        self._prefix = full_name(settings.kafka.prefix, "")

    def read(self, topics: Sequence[str], since_ms: int = 0) -> None:
        """Read one topic after the other, from a moment on (epoch ms; 0: from the beginning). Raises PochadeError."""
        with self._client() as consumer:
            for topic in topics:
                self._read(consumer, self._starts(consumer, topic, since_ms))

    def read_on(self) -> int:
        """Read on with a new client behind the last record; return the number of records. Raises PochadeError."""
        before = self._taken
        with self._client() as consumer:
            self._read(consumer, dict(self._read_to))
        return self._taken - before

    @contextlib.contextmanager
    def _client(self) -> Iterator[Consumer]:
        consumer = open_consumer(self._settings, "audit")
        try:
            yield consumer
        except KafkaException as failure:
            raise PochadeError(f"cannot read the topics of {self._prefix}*: {failure.args[0].str()}") from None
        finally:
            consumer.close()

    def _starts(self, consumer: Consumer, topic: str, since_ms: int) -> dict[Position, int]:
        name = self._prefix + topic
        partitions = partitions_of(consumer, name, ANSWER_S)
        bounds = {p: _bounds(consumer, TopicPartition(name, p)) for p in partitions}  # before the question about times
        if not since_ms:
            return {(topic, partition): first for partition, (first, _) in bounds.items()}
        found = offsets_at(consumer, name, partitions, since_ms, ANSWER_S)
        return {(topic, p): offset if offset >= 0 else bounds[p][1] for p, offset in found.items()}

    def _read(self, consumer: Consumer, starts: Mapping[Position, int]) -> None:
        self._read_to |= {where: self._read_to.get(where, offset) for where, offset in starts.items()}
        consumer.assign([TopicPartition(self._prefix + t, p, offset) for (t, p), offset in starts.items()])
        behind, begun_s = set(starts), time.monotonic()
        while behind:
            waited_s = time.monotonic() - begun_s
            if waited_s > READ_S:
                names = ", ".join(sorted({topic for topic, _ in behind}))
                raise PochadeError(f"could not read {names} to its end within {READ_S:g} s: is the broker reachable?")
            for where, end in self._take_all(poll_records(consumer, BATCH, RETRY_S)):
                if self._is_end(where, end, waited_s):
                    behind.discard(where)
                else:
                    consumer.seek(TopicPartition(self._prefix + where[0], where[1], self._read_to[where]))

    def _take_all(self, polled: Polled) -> list[tuple[Position, int]]:
        """Hand over the records; where logs are said to end."""
        for message in polled.records:
            where, offset = self._position(message), message.offset() or 0
            if offset >= self._read_to[where]:  # one that was misled begins again
                self._read_to[where] = offset + 1
                self._taken += 1
                self._take(incoming(message, self._settings.kafka.prefix))
        return [(self._position(end), end.offset() or 0) for end in polled.ends]

    def _position(self, message: Message) -> Position:
        return (message.topic() or "").removeprefix(self._prefix), message.partition() or 0

    def _is_end(self, where: Position, end: int, waited_s: float) -> bool:
        least = max(self._read_to[where], self._at_least.get(where, 0))
        if end < least and waited_s < DOUBT_S:
            time.sleep(RETRY_S)
            return False
        if end < least:
            log.warning("%s %d is said to end at %d, though %d was seen", *where, end, least)
        self._read_to[where] = max(self._read_to[where], end)
        return True


def _bounds(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    found: tuple[int, int] = patiently(lambda: consumer.get_watermark_offsets(partition, timeout=ANSWER_S), ANSWER_S)
    return found

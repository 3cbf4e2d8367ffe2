"""Reads topics to their ends, and asks again whether those were the ends.

A broker that was frozen and goes on answers for a moment as if it still led, from a log that ends too early. So an
end below what was seen, or below what a role has committed, is none; and what a client was told at first is asked
again of a fresh one.
"""

import logging
import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import full_name
from streams.admin import client_config
from streams.passing import may_pass, partitions_of, patiently
from streams.reading import incoming, poll_batch
from streams.settings import Settings

log = logging.getLogger(__name__)

Position = tuple[str, int]  # topic, partition
ANSWER_S = 30.0  # for brokers to tell who leads, and where a log ends
READ_S = 600.0  # for all of a topic
DOUBT_S = 30.0  # an end that is too early is believed then: somebody made the topic anew
AGAIN_S = 0.5  # until the same broker is asked again
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

    def read(self, topic: str, since_ms: int = 0) -> None:
        """All of a topic since a moment (epoch ms; 0: its beginning). Raises PochadeError: it cannot be read."""
        self._ask(topic, lambda consumer: self._starts(consumer, topic, since_ms))

    def read_on(self, topic: str) -> int:
        """What a fresh client finds behind what was read of a topic; how many records. Raises PochadeError."""
        before = self._taken
        self._ask(topic, lambda _: {at[1]: offset for at, offset in self._read_to.items() if at[0] == topic})
        return self._taken - before

    def _ask(self, topic: str, starts: Callable[[Consumer], dict[int, int]]) -> None:
        consumer = Consumer(
            {
                **client_config(self._settings),
                "group.id": f"{self._settings.kafka.prefix}.audit",  # never used: no commits, no membership
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            self._read(consumer, topic, starts(consumer))
        except KafkaException as failure:
            raise PochadeError(f"cannot read {topic}: {failure.args[0].str()}") from None
        finally:
            consumer.close()

    def _starts(self, consumer: Consumer, topic: str, since_ms: int) -> dict[int, int]:
        name = full_name(self._settings.kafka.prefix, topic)
        asked = [TopicPartition(name, p, since_ms) for p in partitions_of(consumer, name, ANSWER_S)]
        bounds = {tp.partition: _bounds(consumer, tp) for tp in asked}  # before the question about times
        if not since_ms:
            return {partition: first for partition, (first, _) in bounds.items()}
        found = patiently(lambda: consumer.offsets_for_times(asked, timeout=ANSWER_S), ANSWER_S)
        return {tp.partition: tp.offset if tp.offset >= 0 else bounds[tp.partition][1] for tp in found}

    def _read(self, consumer: Consumer, topic: str, starts: Mapping[int, int]) -> None:
        name, begun_s = full_name(self._settings.kafka.prefix, topic), time.monotonic()
        self._read_to |= {(topic, p): self._read_to.get((topic, p), offset) for p, offset in starts.items()}
        consumer.assign([TopicPartition(name, p, offset) for p, offset in starts.items()])
        behind = set(starts)
        while behind:
            waited_s = time.monotonic() - begun_s
            if waited_s > READ_S:
                raise PochadeError(f"could not read {topic} to its end within {READ_S:g} s: is the broker reachable?")
            for end in self._take_all(poll_batch(consumer, BATCH, AGAIN_S), topic):
                if self._is_end(end, waited_s):
                    behind.discard(end.partition)
                else:
                    consumer.seek(TopicPartition(name, end.partition, self._read_to[topic, end.partition]))

    def _take_all(self, messages: list[Message], topic: str) -> list[TopicPartition]:
        """Hand over the records; where logs are said to end."""
        ends = []
        for message in messages:
            error, partition, offset = message.error(), message.partition() or 0, message.offset() or 0
            if error is None and offset >= self._read_to[topic, partition]:  # one that was misled begins again
                self._read_to[topic, partition] = offset + 1
                self._taken += 1
                self._take(incoming(message, self._settings.kafka.prefix))
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                ends.append(TopicPartition(topic, partition, offset))
            elif error is not None and not may_pass(error):
                raise KafkaException(error)
        return ends

    def _is_end(self, end: TopicPartition, waited_s: float) -> bool:
        where = (end.topic, end.partition)
        least = max(self._read_to[where], self._at_least.get(where, 0))
        if end.offset < least and waited_s < DOUBT_S:
            time.sleep(AGAIN_S)
            return False
        if end.offset < least:
            log.warning("%s %d is said to end at %d, though %d was seen", *where, end.offset, least)
        self._read_to[where] = max(self._read_to[where], end.offset)
        return True


def _bounds(consumer: Consumer, partition: TopicPartition) -> tuple[int, int]:
    found: tuple[int, int] = patiently(lambda: consumer.get_watermark_offsets(partition, timeout=ANSWER_S), ANSWER_S)
    return found

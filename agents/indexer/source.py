"""The index writer's consumer of `results`: batches, commits after both stores have the rows, and reading again."""

import contextlib
import time
from collections.abc import Sequence
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import RESULTS, full_name
from streams.codec.schema_wait import SchemaWait, WaitingMessages
from streams.kafka.clients import ANSWER_LIMIT_S
from streams.kafka.consumers import snapshot
from streams.kafka.consumers.consumer_factory import open_member
from streams.kafka.consumers.polling import incoming, take
from streams.kafka.groups.groups import member_config
from streams.kafka.groups.members import IdleMember
from streams.settings import Settings

GROUP: Final = "indexer"
COUNT_S: Final = 60.0  # between two counts of the partitions of `results`
RECALL_S: Final = 120.0  # for the results of the last hours to be read once


class Results(Protocol):
    """The port of `results`; `ResultSource` is the live one."""

    @property
    def owned(self) -> frozenset[int]:
        """The partitions of `results` that this reader owns."""

    @property
    def partitions(self) -> int:
        """Number of partitions of `results`, with those of other readers. Raises PochadeError if unknown."""

    @property
    def waits_for(self) -> str:
        """The missing schema for which records wait; "" if none is missing. Any thread may ask."""

    def take(self, most: int, timeout_s: float) -> list[Incoming]:
        """Up to `most` records, in each partition's order."""

    def commit(self, batch: Sequence[Incoming]) -> None:
        """Commit past these records."""

    def rewind(self, batch: Sequence[Incoming]) -> None:
        """Read these records again next, if this reader still owns their partitions."""

    def since(self, moment_ms: int, partitions: frozenset[int]) -> list[Incoming]:
        """Return the records of these partitions from a time (epoch ms) until now."""

    def close(self) -> None:
        """Leave the group."""


class ResultSource:
    """The consumer of committed results in the group PREFIX.indexer. For one thread.

    A record of a newer release, and those behind it on its partition, are held back until its schema is known.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prefix = settings.kafka.prefix
        self._topic = full_name(self._prefix, RESULTS)
        group = f"{self._prefix}.{GROUP}"
        self._owned = set[int]()
        self._consumer = open_member(member_config(settings, group), {"isolation.level": "read_committed"})
        self._idle = IdleMember(settings, group)
        self._schemas = SchemaWait(GROUP)
        self._held_back = WaitingMessages(self._consumer, self._prefix, self._schemas)
        self._partitions, self._counted_s = 0, -COUNT_S
        self._consumer.subscribe([self._topic], on_assign=self._gain, on_revoke=self._lose, on_lost=self._lose)

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(self._owned)

    @property
    def partitions(self) -> int:
        """Asked for once in COUNT_S, as an operator may add some."""
        if time.monotonic() - self._counted_s >= COUNT_S:
            try:
                found = self._consumer.list_topics(self._topic, timeout=ANSWER_LIMIT_S).topics[self._topic]
            except KafkaException as failure:
                raise PochadeError(f"cannot find out how many partitions {self._topic} has: {failure}") from None
            self._partitions, self._counted_s = len(found.partitions) or self._partitions, time.monotonic()
        if not self._partitions:
            raise PochadeError(f"{self._topic} has no partitions: create it, for example by `pochade topics create`")
        return self._partitions

    @property
    def waits_for(self) -> str:
        return self._schemas.why

    def take(self, most: int, timeout_s: float) -> list[Incoming]:
        messages = take(self._consumer, most, timeout_s)
        self._idle.check(self._consumer, len(self._owned), is_served=bool(messages) or self._held_back.holds)
        own = [each for each in messages if each.partition() in self._owned]
        return [incoming(each, self._prefix) for each in self._held_back.readable(own)]

    def commit(self, batch: Sequence[Incoming]) -> None:
        ends = {record.partition: record.offset + 1 for record in batch}
        positions = [TopicPartition(self._topic, p, end) for p, end in ends.items() if p in self._owned]
        if positions:
            with contextlib.suppress(KafkaException):  # another owner has it: it writes the same rows again
                self._consumer.commit(offsets=positions, asynchronous=False)

    def rewind(self, batch: Sequence[Incoming]) -> None:
        begins = {record.partition: record.offset for record in reversed(batch)}
        self._held_back.lose([TopicPartition(self._topic, partition) for partition in begins])  # read again, too
        for partition, offset in begins.items():
            if partition in self._owned:
                with contextlib.suppress(KafkaException):  # it is another's by now, who begins where was committed
                    self._consumer.seek(TopicPartition(self._topic, partition, offset))

    def since(self, moment_ms: int, partitions: frozenset[int]) -> list[Incoming]:
        return snapshot.past(
            self._settings, [RESULTS], since_ms=moment_ms, keep=lambda record: record.partition in partitions,
            timeout_s=RECALL_S,
        )  # fmt: skip

    def close(self) -> None:
        self._consumer.close()

    def _gain(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._owned |= {each.partition for each in partitions}

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._owned -= {each.partition for each in partitions}
        self._held_back.lose(partitions)

"""The index writer's share of `results`: batches, commits after both stores have what follows, and reading again."""

import contextlib
from collections.abc import Sequence
from typing import Final, Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from schemas.record import Incoming
from schemas.topics import RESULTS, full_name
from streams.kafka import snapshot
from streams.kafka.consumer_factory import open_member
from streams.kafka.groups import member_config
from streams.kafka.members import IdleMember
from streams.kafka.polling import incoming, take
from streams.settings import Settings

GROUP: Final = "indexer"
RECALL_S: Final = 120.0  # for the results of the last hours to be read once


class Results(Protocol):
    """What the index writer reads; `ResultSource` is the live one."""

    @property
    def owned(self) -> frozenset[int]:
        """The partitions of `results` that are this reader's now."""
        ...

    def take(self, most: int, timeout_s: float) -> list[Incoming]:
        """Up to `most` records, in each partition's order."""
        ...

    def commit(self, batch: Sequence[Incoming]) -> None:
        """Commit past these records."""
        ...

    def rewind(self, batch: Sequence[Incoming]) -> None:
        """Read these records again next, as far as they are still this reader's."""
        ...

    def since(self, moment_ms: int, partitions: frozenset[int]) -> list[Incoming]:
        """Return the records of these partitions from a moment on, until now."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class ResultSource:
    """The consumer of committed results in the group PREFIX.indexer. For one thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._prefix = settings.kafka.prefix
        self._topic = full_name(self._prefix, RESULTS)
        group = f"{self._prefix}.{GROUP}"
        self._owned = set[int]()
        self._consumer = open_member(member_config(settings, group), {"isolation.level": "read_committed"})
        self._idle = IdleMember(settings, group)
        self._consumer.subscribe([self._topic], on_assign=self._gain, on_revoke=self._lose, on_lost=self._lose)

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(self._owned)

    def take(self, most: int, timeout_s: float) -> list[Incoming]:
        messages = take(self._consumer, most, timeout_s)
        self._idle.check(self._consumer, len(self._owned))
        return [incoming(each, self._prefix) for each in messages if each.partition() in self._owned]

    def commit(self, batch: Sequence[Incoming]) -> None:
        ends = {record.partition: record.offset + 1 for record in batch}
        positions = [TopicPartition(self._topic, p, end) for p, end in ends.items() if p in self._owned]
        if positions:
            with contextlib.suppress(KafkaException):  # another owner has it: it writes the same rows again
                self._consumer.commit(offsets=positions, asynchronous=False)

    def rewind(self, batch: Sequence[Incoming]) -> None:
        begins = {record.partition: record.offset for record in reversed(batch)}
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

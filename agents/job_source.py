"""A worker's share of one variant's job topic: batches to paint, attempts that survive a crash, commits after acks.

One batch is taken, painted without polling, its result acknowledged, then committed: measured, pausing and resuming
costs up to a second a job. Before painting, the attempt is committed as metadata of the unchanged offset, so that a
job which kills its worker is recognised by the next owner.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from schemas.messages import OwnedPartition
from schemas.record import Incoming
from schemas.topics import full_name, jobs_topic
from streams import metrics
from streams.admin import client_config
from streams.reading import incoming, take
from streams.settings import Settings

log = logging.getLogger(__name__)

METADATA = "attempt="


@dataclass(frozen=True, slots=True)
class Taken:
    """A record with the number of owners it has met, this one included."""

    record: Incoming
    attempt: int


def worker_group(prefix: str, variant: str) -> str:
    """One group a variant: changing variant is closing one consumer and opening another (measured: 0.17 s)."""
    return f"{prefix}.worker.{variant}"


class JobSource:
    """One consumer in the variant's group; used by one thread, but for `owned`."""

    def __init__(self, settings: Settings, variant: str) -> None:
        self._prefix = settings.kafka.prefix
        self._topic = full_name(self._prefix, jobs_topic(variant, 1).name)
        self._prior: dict[int, tuple[int, int]] = {}  # partition -> (offset, attempts that former owners began)
        self._next: dict[int, int] = {}  # owned partition -> offset to take next
        self._admin = AdminClient(client_config(settings))
        self._consumer = Consumer(
            {
                **client_config(settings),
                "group.id": worker_group(self._prefix, variant),
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "max.poll.interval.ms": int(max(settings.worker.job_limit_s * 2, 60) * 1000),
                "fetch.wait.max.ms": 100,
                "queued.min.messages": 1,
                "fetch.queue.backoff.ms": 10,
            }
        )
        self._consumer.subscribe([self._topic], on_assign=self._gain, on_revoke=self._lose, on_lost=self._lose)

    def _gain(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for committed in consumer.committed(partitions, timeout=10):
            if committed.error is not None:  # taking it for "nothing committed" would forget the attempts
                raise KafkaException(committed.error)
            self._next[committed.partition] = max(0, committed.offset)
            metadata = committed.metadata or ""
            if committed.offset >= 0 and metadata.startswith(METADATA):
                self._prior[committed.partition] = (committed.offset, int(metadata.removeprefix(METADATA)))

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for lost in partitions:
            self._next.pop(lost.partition, None)
            self._prior.pop(lost.partition, None)

    def take(self, most: int, timeout_s: float) -> list[Taken]:
        """Up to `most` jobs; one alone while a former owner died over the first of them, so that poison is found."""
        most = 1 if self._prior else most
        messages = take(self._consumer, most, timeout_s)
        # a partition can be taken away between two messages of a batch: its jobs are the new owner's
        return [self._taken(message) for message in messages if message.partition() in self._next]

    def _taken(self, message: Message) -> Taken:
        record = incoming(message, self._prefix)
        self._next[record.partition] = record.offset + 1
        offset, attempts = self._prior.pop(record.partition, (-1, 0))
        return Taken(record, attempts + 1 if offset == record.offset else 1)

    def begin(self, batch: Sequence[Taken]) -> None:
        """Record the attempt before painting."""
        first: dict[int, Taken] = {}
        for taken in batch:
            first.setdefault(taken.record.partition, taken)
        self._commit([self._position(t.record, 0, f"{METADATA}{t.attempt}") for t in first.values()])

    def commit(self, batch: Sequence[Taken]) -> None:
        """Everything that these records caused is acknowledged: go past them."""
        last = {taken.record.partition: taken.record for taken in batch}
        self._commit([self._position(record, 1, "") for record in last.values()])

    def _position(self, record: Incoming, past: int, metadata: str) -> TopicPartition:
        return TopicPartition(self._topic, record.partition, record.offset + past, metadata)

    def _commit(self, positions: list[TopicPartition]) -> None:
        try:
            self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:  # another owner has the partition: the work may be done twice
            metrics.FALLBACKS.labels("worker", "commit").inc()
            log.warning("commit refused: %s", error)

    def owned(self, run_ms: float) -> tuple[OwnedPartition, ...]:
        """What lies in the owned partitions and has not been taken; called from the heartbeat's thread.

        Nothing here asks the consumer: `assignment()` blocks for seconds while a group rebalances, and a query for
        ends on its connection waits behind its fetch, 100 ms a partition (both measured).
        """
        positions = dict(self._next)
        asked = {TopicPartition(self._topic, partition): OffsetSpec.latest() for partition in positions}
        ends = self._admin.list_offsets(asked, request_timeout=2) if asked else {}
        return tuple(
            OwnedPartition(
                partition=tp.partition,
                end_offset=(end := future.result().offset),
                remaining_ms=round(max(0, end - positions[tp.partition]) * run_ms),
            )
            for tp, future in ends.items()
        )

    def is_empty(self) -> bool:
        """Whether nothing lies in the owned partitions."""
        return all(owned.remaining_ms == 0 for owned in self.owned(1000))

    def close(self) -> None:
        """Leave the group at once."""
        self._consumer.close()

"""A partition that an operator added to `outcomes`: nobody knows there what has ended.

Which partition knows whether a request has ended follows from how many partitions the ledger's topics had together.
An outcome in a partition beyond these is written to the partition of its key, and committed once it is there.
"""

import logging
from collections.abc import Sequence

from confluent_kafka import Consumer, TopicPartition

from agents.ledger.remembered import ROLE
from schemas.record import Incoming, Outgoing
from schemas.topics import OUTCOMES
from streams import metrics
from streams.kafka.clients import topic_name
from streams.kafka.partitioner import partition_of
from streams.kafka.producer import RecordProducer, send_all
from streams.settings import Settings

log = logging.getLogger(__name__)

DELIVERY_S = 130.0  # the client gives up after 120 s


class AddedPartition:
    """Moves each outcome of one such partition to its own."""

    def __init__(self, settings: Settings, partition: int, count: int, producer: RecordProducer) -> None:
        """`count`: partitions that know what has ended."""
        self._topic = topic_name(settings, OUTCOMES)
        self._partition = partition
        self._count = count
        self._producer = producer
        log.warning(
            "partition %d of %s was added later: its outcomes are moved to the first %d, which know what has ended; "
            "see `pochade doctor`",
            partition,
            self._topic,
            count,
        )

    def serve(self, records: Sequence[Incoming], group: Consumer) -> None:
        """Write these outcomes where they belong, wait until they are there, then commit past them.

        Raises:
            DeliveryFailed: the broker did not take one in time; none is committed, and all are moved again.
        """
        send_all(self._producer, [self._moved(record) for record in records], DELIVERY_S)
        metrics.FALLBACKS.labels(ROLE, "foreign-partition").inc(len(records))
        place = TopicPartition(self._topic, self._partition, records[-1].offset + 1)
        group.commit(offsets=[place], asynchronous=True)

    def _moved(self, record: Incoming) -> Outgoing:
        home = partition_of(record.key or b"", self._count)
        return Outgoing(topic=OUTCOMES, key=record.key, value=record.value, headers=record.headers, partition=home)

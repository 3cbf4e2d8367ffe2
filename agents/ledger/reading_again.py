"""Reads single records of `classified` again, by their offsets: those whose requests are overdue."""

import time
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.record import Incoming
from streams.kafka.barrier import open_reader
from streams.kafka.consumer import incoming, poll_batch
from streams.kafka.errors import may_pass
from streams.settings import Settings

LIMIT_S = 10.0
NEAR = 500  # records that are read over sooner than a new place is looked up
BATCH = 500


class Rereader:
    """One client, made when it is first needed. Not thread-safe."""

    def __init__(self, settings: Settings, topic: str) -> None:
        """`topic` with the prefix."""
        self._settings, self._topic = settings, topic
        self._consumer: Consumer | None = None

    def read(self, partition: int, offsets: Sequence[int]) -> list[Incoming]:
        """The records there; one that is gone is left out.

        Raises:
            KafkaException: the broker did not give them in time.
        """
        if self._consumer is None:
            self._consumer = open_reader(self._settings, "ledger.again")
        found: dict[int, Incoming] = {}
        for run in _runs(sorted(offsets)):
            self._read_run(self._consumer, partition, run, found)
        return [found[offset] for offset in offsets if offset in found]

    def _read_run(self, consumer: Consumer, partition: int, run: Sequence[int], found: dict[int, Incoming]) -> None:
        wanted, end_s = set(run), time.monotonic() + LIMIT_S
        consumer.assign([TopicPartition(self._topic, partition, run[0])])
        while True:
            for message in poll_batch(consumer, BATCH, 0.1):
                error, offset = message.error(), message.offset() or 0
                if error is None and offset in wanted:
                    found[offset] = incoming(message, self._settings.kafka.prefix)
                elif error is not None and error.code() != KafkaError._PARTITION_EOF and not may_pass(error):
                    raise KafkaException(error)
                if offset >= run[-1] and (error is None or offset > run[-1]):
                    return
            if time.monotonic() > end_s:
                what = f"{self._topic}/{partition} did not give {len(wanted)} records within {LIMIT_S:g} s"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, what))

    def close(self) -> None:
        """Release the client."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _runs(offsets: Sequence[int]) -> list[list[int]]:
    """Neighbours together."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] <= NEAR:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs

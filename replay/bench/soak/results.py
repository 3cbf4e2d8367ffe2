"""Reads the topic `results` as a client does, from a place that a run keeps: no result is counted twice or skipped."""

from collections.abc import Iterator, Mapping
from typing import Final

from confluent_kafka import TopicPartition

from schemas.messages import Result
from schemas.topics import RESULTS
from streams.codec.avro import decode_result
from streams.kafka.clients import topic_name
from streams.kafka.consumers.consumer_factory import open_consumer
from streams.kafka.consumers.polling import take
from streams.kafka.errors import partitions_of
from streams.settings import Settings

ANSWER_S: Final = 15.0
BATCH: Final = 500
PREFETCHED_KB: Final = 4096


class Results:
    """Committed results from a place on."""

    def __init__(self, settings: Settings, kept: Mapping[str, int], *, is_from_end: bool) -> None:
        """`kept`: partition -> offset, of an earlier session. Without it reading begins at the end or the beginning."""
        self._consumer = open_consumer(
            settings, "soak", {"enable.partition.eof": False, "queued.max.messages.kbytes": PREFETCHED_KB}
        )
        topic = topic_name(settings, RESULTS)
        self._next = {int(partition): offset for partition, offset in kept.items()}
        for partition in partitions_of(self._consumer, topic, ANSWER_S):
            if partition not in self._next:
                first, end = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_S)
                self._next[partition] = end if is_from_end else first
        self._consumer.assign([TopicPartition(topic, *place) for place in self._next.items()])

    def take(self, timeout_s: float) -> Iterator[tuple[bytes, Result]]:
        """Yield the keys and results that have come; waits for the first."""
        for message in take(self._consumer, BATCH, timeout_s):
            yield message.key() or b"", decode_result(message.value())
            self._next[message.partition() or 0] = (message.offset() or 0) + 1

    def place(self) -> dict[str, int]:
        """Return partition -> offset of the next result."""
        return {str(partition): offset for partition, offset in self._next.items()}

    def close(self) -> None:
        """Release the client."""
        self._consumer.close()

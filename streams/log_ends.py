"""Where logs end, asked of the broker by a client of its own: a consumer's query would wait behind its fetch."""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.asking import Asking

ANSWER_S = 2  # for the broker to tell


class LogEnds:
    """Any thread may ask."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._asking = Asking(config)

    def of(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """partition -> the end of its log, where the broker knows it. Raises KafkaException, TimeoutError."""
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}

        def look(client: AdminClient) -> dict[int, int]:
            ends = client.list_offsets(asked, request_timeout=ANSWER_S) if asked else {}
            found = {tp.partition: future.result(2 * ANSWER_S).offset for tp, future in ends.items()}
            return {partition: end for partition, end in found.items() if end >= 0}

        return self._asking.ask(look)

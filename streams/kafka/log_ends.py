"""Where logs end, asked of the broker by a client of its own: a consumer's query would wait behind its fetch."""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

ANSWER_S = 2  # for the broker to tell


class LogEnds:
    """Any thread may ask. A client that has failed is replaced."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._admin = AdminClient(self._config)

    def of(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """partition -> the end of its log, where the broker knows it. Raises KafkaException, TimeoutError.

        After a broker's death one client answered no more, and its worker's heartbeats named no partition for ever
        (seen). The replaced one lives on here while another thread waits for its answers: they would never come (seen
        too: a worker that wished to change variant painted no more).
        """
        client = self._admin
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
        try:
            ends = client.list_offsets(asked, request_timeout=ANSWER_S) if asked else {}
            found = {tp.partition: future.result(2 * ANSWER_S).offset for tp, future in ends.items()}
        except (KafkaException, TimeoutError):
            if self._admin is client:
                self._admin = AdminClient(self._config)
            raise
        return {partition: end for partition, end in found.items() if end >= 0}

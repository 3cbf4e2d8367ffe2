"""Where logs end, asked of the broker by a client of its own: a consumer's query would wait behind its fetch.

A consumer that is never subscribed asks, not the admin's client: where a partition's leader is gone, the admin's uses a
whole core until the answer is due, and where it comes back, it answers with an error for ever (FENCED_LEADER_EPOCH;
both measured with librdkafka 2.16.0). With a broker lost, three workers' heartbeats had kept two cores busy.
"""

import time
from collections.abc import Collection
from typing import Protocol

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.kafka.clients import client_config
from streams.settings import Settings

ANSWER_S = 2.0  # for the brokers to tell, all partitions together
LEAST_S = 0.2  # for one partition, also when the others' leaders have used that up


class Asked(Protocol):
    """What a Consumer tells."""

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]: ...


class LogEnds:
    """Any thread may ask."""

    def __init__(self, settings: Settings) -> None:
        self._client: Asked = Consumer(
            {
                **client_config(settings),
                "group.id": f"{settings.kafka.prefix}.log-ends",  # never used: no commits, no membership
                "isolation.level": "read_uncommitted",
            }
        )

    def of(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """partition -> the end of its log; one whose leader does not answer now is left out.

        Raises KafkaException: none of their leaders answers.
        """
        ends: dict[int, int] = {}
        failure: KafkaException | None = None
        deadline = time.monotonic() + ANSWER_S
        for left, partition in zip(range(len(partitions), 0, -1), partitions, strict=True):
            limit_s = max(LEAST_S, (deadline - time.monotonic()) / left)
            try:
                _, end = self._client.get_watermark_offsets(TopicPartition(topic, partition), timeout=limit_s)
            except KafkaException as error:
                failure = error
                continue
            if end >= 0:  # a broker that has just begun answers -1
                ends[partition] = end
        if failure is not None and not ends:
            raise failure
        return ends

"""How far a consumer group has come on a topic, asked without joining it."""

from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.admin import ANSWER_LIMIT_S
from streams.passing import partitions_of, patiently


class Unread(NamedTuple):
    """What a group has not committed of a partition: the offsets from `start` to below `end`."""

    start: int
    end: int


def unread(client: AdminClient, topic: str, group: str) -> dict[int, Unread]:
    """partition -> what is there of it and not committed, empty ones left out; all of it for a group that never was.

    Raises KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    partitions = _partitions(client, topic)
    committed = _committed(client, partitions, group)
    firsts = _offsets(client, partitions, OffsetSpec.earliest())
    ends = _offsets(client, partitions, OffsetSpec.latest())
    spans = {p: Unread(max(committed.get(p, 0), firsts[p]), ends[p]) for p in ends}
    return {partition: span for partition, span in spans.items() if span.start < span.end}


def positions(client: AdminClient, topic: str, group: str) -> dict[int, int]:
    """partition -> the offset that a group goes on from, 0 where it has committed none.

    Raises KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    partitions = _partitions(client, topic)
    committed = _committed(client, partitions, group)
    return {each.partition: max(0, committed.get(each.partition, 0)) for each in partitions}


def _partitions(client: AdminClient, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions_of(client, topic, ANSWER_LIMIT_S)]


def _offsets(client: AdminClient, partitions: list[TopicPartition], which: OffsetSpec) -> dict[int, int]:
    """A topic that was made a moment ago may have no leader yet, or be unknown to the broker that is asked."""

    def look() -> dict[int, int]:
        asked = client.list_offsets(dict.fromkeys(partitions, which), request_timeout=ANSWER_LIMIT_S)
        return {partition.partition: future.result().offset for partition, future in asked.items()}

    return patiently(look, ANSWER_LIMIT_S, {KafkaError.UNKNOWN_TOPIC_OR_PART})


def _committed(client: AdminClient, partitions: list[TopicPartition], group: str) -> dict[int, int]:
    asked = client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=ANSWER_LIMIT_S
    )
    return {each.partition: each.offset for each in asked[group].result().topic_partitions or []}  # < 0: none

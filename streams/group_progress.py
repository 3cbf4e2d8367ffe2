"""How far a consumer group has come on a topic, asked without joining it."""

from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from streams.admin import ANSWER_LIMIT_S

UNLED = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART}
AGAIN = wait_fixed(0.1)  # s


class Unread(NamedTuple):
    """What a group has not committed of a partition: the offsets from `start` to below `end`."""

    start: int
    end: int


def unread(client: AdminClient, topic: str, group: str) -> dict[int, Unread]:
    """partition -> what is there of it and not committed, empty ones left out; all of it for a group that never was.

    Raises KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    found = client.list_topics(topic, timeout=ANSWER_LIMIT_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    partitions = [TopicPartition(topic, partition) for partition in found.partitions]
    committed = _committed(client, partitions, group)
    firsts = _offsets(client, partitions, OffsetSpec.earliest())
    ends = _offsets(client, partitions, OffsetSpec.latest())
    spans = {p: Unread(max(committed.get(p, 0), firsts[p]), ends[p]) for p in found.partitions}
    return {partition: span for partition, span in spans.items() if span.start < span.end}


def positions(client: AdminClient, topic: str, group: str) -> dict[int, int]:
    """partition -> the offset that a group goes on from, 0 where it has committed none.

    Raises KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    found = client.list_topics(topic, timeout=ANSWER_LIMIT_S).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    committed = _committed(client, [TopicPartition(topic, partition) for partition in found.partitions], group)
    return {partition: max(0, committed.get(partition, 0)) for partition in found.partitions}


def _has_no_leader_yet(error: BaseException) -> bool:
    """As of a topic that was made a moment ago."""
    return isinstance(error, KafkaException) and error.args[0].code() in UNLED


@retry(retry=retry_if_exception(_has_no_leader_yet), stop=stop_after_delay(ANSWER_LIMIT_S), wait=AGAIN, reraise=True)
def _offsets(client: AdminClient, partitions: list[TopicPartition], which: OffsetSpec) -> dict[int, int]:
    asked = client.list_offsets(dict.fromkeys(partitions, which), request_timeout=ANSWER_LIMIT_S)
    return {partition.partition: future.result().offset for partition, future in asked.items()}


def _committed(client: AdminClient, partitions: list[TopicPartition], group: str) -> dict[int, int]:
    asked = client.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=ANSWER_LIMIT_S
    )
    return {each.partition: each.offset for each in asked[group].result().topic_partitions or []}  # < 0: none

"""What a group has not read, asked without joining it."""

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from schemas.record import Outgoing
from schemas.topics import EVENTS, full_name
from streams.kafka.clients import client_config
from streams.kafka.consumers.offsets import Unread, refresh, unread
from streams.kafka.errors import patiently
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.settings import Settings
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker


def test_all_is_unread_by_a_group_that_never_was_and_the_rest_by_one_that_committed(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    topic, group = full_name(settings.kafka.prefix, EVENTS), "reads"
    reader = Consumer({**client_config(settings), "group.id": group})
    other = Consumer({**client_config(settings), "group.id": "another"})
    first = [TopicPartition(topic, 0, 0)]  # the cluster keeps offsets from now on, once it knows the new topic
    patiently(lambda: other.commit(offsets=first, asynchronous=False), PATIENCE_S, {KafkaError.UNKNOWN_TOPIC_OR_PART})
    other.close()
    assert unread(settings, topic, group) == {}
    send_all(producer, [Outgoing(topic=EVENTS, key=None, value=b"x", partition=1)] * 3)
    assert unread(settings, topic, group) == {1: Unread(0, 3)}
    reader.commit(offsets=[TopicPartition(topic, 1, 2)], asynchronous=False)
    reader.close()
    assert unread(settings, topic, group) == {1: Unread(2, 3)}


def test_offsets_of_a_group_without_members_are_committed_again_as_they_are(
    settings: Settings,
    producer: KafkaRecordProducer,  # noqa: ARG001  makes the topics
) -> None:
    topic, group = full_name(settings.kafka.prefix, EVENTS), "idle"
    assert patiently(lambda: refresh(settings, topic, group), PATIENCE_S, {KafkaError.UNKNOWN_TOPIC_OR_PART}) == 0
    reader = Consumer({**client_config(settings), "group.id": group})
    reader.commit(offsets=[TopicPartition(topic, 1, 2, "attempt=1 until=3")], asynchronous=False)
    assert refresh(settings, topic, group) == 1
    (kept,) = reader.committed([TopicPartition(topic, 1)], timeout=PATIENCE_S)
    assert (kept.offset, kept.metadata) == (2, "attempt=1 until=3")
    reader.close()


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_group_that_has_members_is_left_alone(
    settings: Settings,
    producer: KafkaRecordProducer,  # noqa: ARG001
    protocol: str,
) -> None:
    topic, group = full_name(settings.kafka.prefix, EVENTS), f"busy-{protocol}"
    own: list[TopicPartition] = []
    member = Consumer({**client_config(settings), "group.id": group, "group.protocol": protocol})
    member.subscribe([topic], on_assign=lambda _, parts: own.extend(parts))
    poll_until(lambda: (member.poll(0.1), own)[1], "partitions")
    member.commit(offsets=[TopicPartition(topic, own[0].partition, 0)], asynchronous=False)
    assert refresh(settings, topic, group) == 0
    member.close()
    assert refresh(settings, topic, group) >= 1

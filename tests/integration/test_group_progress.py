"""What a group has not read, asked without joining it."""

import pytest
from confluent_kafka import Consumer, TopicPartition

from schemas.record import Outgoing
from schemas.topics import EVENTS, full_name
from streams.admin import client_config
from streams.group_progress import Unread, unread
from streams.producer import KafkaRecordProducer, send_all
from streams.settings import Settings

pytestmark = pytest.mark.integration


def test_all_is_unread_by_a_group_that_never_was_and_the_rest_by_one_that_committed(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    topic, group = full_name(settings.kafka.prefix, EVENTS), "reads"
    reader = Consumer({**client_config(settings), "group.id": group})
    other = Consumer({**client_config(settings), "group.id": "another"})
    other.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)  # the cluster keeps offsets from now on
    other.close()
    assert unread(settings, topic, group) == {}
    send_all(producer, [Outgoing(topic=EVENTS, key=None, value=b"x", partition=1)] * 3)
    assert unread(settings, topic, group) == {1: Unread(0, 3)}
    reader.commit(offsets=[TopicPartition(topic, 1, 2)], asynchronous=False)
    reader.close()
    assert unread(settings, topic, group) == {1: Unread(2, 3)}

"""Records that a retention deletes before they are read, on the real broker."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from replay.verify.audit.figures import verdict
from replay.verify.audit.reading import audit
from schemas.record import Outgoing
from schemas.topics import PROMPTS, full_name
from streams.control.deletions import Deletion, find, report
from streams.kafka.clients import client_config
from streams.kafka.consumers.offsets import asking, commit_alone
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.settings import Settings
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker


def commit(settings: Settings, offset: int) -> None:
    with asking(settings, f"{settings.kafka.prefix}.classifier") as client:
        assert commit_alone(client, [TopicPartition(full_name(settings.kafka.prefix, PROMPTS), 1, offset)])


def test_an_audit_fails_for_records_that_were_deleted_before_they_were_read_also_when_their_role_has_gone_on(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    send_all(producer, [Outgoing(topic=PROMPTS, key=b"r", value=b"{}", partition=1) for _ in range(5)])
    commit(settings, 2)
    assert find(settings) == []
    end = TopicPartition(full_name(settings.kafka.prefix, PROMPTS), 1, 5)
    client = AdminClient(client_config(settings))  # must live until the answers are here
    for gone in client.delete_records([end]).values():
        gone.result(PATIENCE_S)
    assert find(settings) == [Deletion(PROMPTS, 1, 2, 5)]
    report(settings, ["classifier"], producer)
    commit(settings, 5)
    assert find(settings) == []
    said = verdict(audit(settings, with_images=False).figures)
    assert said == "up to 3 records of prompts.v1 at 1@2 to 4 were deleted before they were read"

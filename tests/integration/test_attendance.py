"""Who serves and what waits, as `doctor` sees it on the real broker."""

import contextlib

import pytest
from confluent_kafka import Consumer

from schemas import topics
from schemas.record import Outgoing
from streams.kafka.groups.groups import member_config
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.operator.checks import Attendance
from streams.operator.doctor import attendance
from streams.settings import Settings
from tests.integration.waiting import poll_until

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_role_without_members_is_seen_with_what_waits_for_it(
    settings: Settings, producer: KafkaRecordProducer, protocol: str
) -> None:
    kafka = settings.kafka.model_copy(update={"group_protocol": protocol})
    own = settings.model_copy(update={"kafka": kafka})
    send_all(producer, [Outgoing(topic=topics.OUTCOMES, key=b"r", value=b"outcome") for _ in range(3)])
    assert attendance(own, "ledger") == Attendance(0, 3)
    with contextlib.closing(Consumer(member_config(own, f"{own.kafka.prefix}.ledger"))) as member:
        member.subscribe([topics.full_name(own.kafka.prefix, topics.OUTCOMES)])

        def joined() -> bool:
            member.poll(0.1)
            return attendance(own, "ledger") == Attendance(1, 3)

        poll_until(joined, "a member")

"""What `doctor` finds on the real broker: garbage, strangers, and how long records have waited."""

import contextlib

import pytest
from confluent_kafka import Consumer, Producer

from schemas import topics
from schemas.record import Outgoing
from streams.kafka.clients import client_config
from streams.kafka.groups.groups import member_config
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.operator import checks
from streams.operator.doctor import attendance, examine
from streams.operator.verdicts import Check, Verdict
from streams.settings import Settings
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

UNKNOWN = b"\0" + (5000).to_bytes(4, "big") + b"junk"


def doctors(settings: Settings) -> dict[str, Check]:
    return {check.name: check for check in examine(settings)}


def test_doctor_makes_every_check_whatever_lies_on_the_topics(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    create_topics(settings, ["light"])
    clean = doctors(settings)
    for topic in (topics.FLEET, topics.PLAN, topics.IMAGES, topics.RESULTS, topics.DLQ, topics.SCHEMAS):
        for value in (UNKNOWN, b"garbage", None):
            key = topics.PLAN_KEY if topic == topics.PLAN else "x"
            send_all(producer, [Outgoing(topic=topic, key=key.encode(), value=value)])
    found = doctors(settings)
    assert found.keys() >= clean.keys()
    assert list(found)[-1] == "dead letters"
    failing = {name for name, check in found.items() if check.verdict is Verdict.FAIL}
    assert failing == {"classifier", "classifier-batch", "router", "discriminator", "ledger", "plan", "workers"}
    assert (found["rights in force"].verdict, found["strangers"].verdict) == (Verdict.OK, Verdict.OK)


def test_doctor_names_a_stranger_in_a_group_of_ours_and_no_client_of_ours(
    settings: Settings,
    producer: KafkaRecordProducer,  # noqa: ARG001  makes the topics
) -> None:
    group, topic = f"{settings.kafka.prefix}.ledger", topics.full_name(settings.kafka.prefix, topics.OUTCOMES)
    intruding = {
        "bootstrap.servers": client_config(settings)["bootstrap.servers"], "group.id": group,
        "group.protocol": "consumer",
    }  # fmt: skip
    with contextlib.closing(Consumer(member_config(settings, group))) as ours:
        ours.subscribe([topic])
        with contextlib.closing(Consumer(intruding)) as stranger:
            stranger.subscribe([topic])

            def joined() -> bool:
                ours.poll(0.1)
                stranger.poll(0.1)
                return attendance(settings, "ledger").members == 2

            poll_until(joined, "both are members")
            check = doctors(settings)["strangers"]
        assert (check.verdict, check.found) == (Verdict.FAIL, f"ledger: rdkafka on {check.found.rpartition(' ')[2]}")
        poll_until(lambda: ours.poll(0.1) or attendance(settings, "ledger").members == 1, "the stranger has left")
        assert doctors(settings)["strangers"].verdict is Verdict.OK


def test_doctor_fails_for_a_record_that_waits_for_long_and_not_for_markers_of_transactions(
    settings: Settings, producer: KafkaRecordProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, topic = f"{settings.kafka.prefix}.ledger", topics.full_name(settings.kafka.prefix, topics.OUTCOMES)
    monkeypatch.setattr(checks, "STUCK_S", 0.0)
    with contextlib.closing(Consumer(member_config(settings, group))) as ours:
        ours.subscribe([topic])
        poll_until(lambda: ours.poll(0.1) or len(ours.assignment()) > 0, "a member with partitions")
        aborting = Producer({**client_config(settings), "transactional.id": f"{settings.kafka.prefix}.test"})
        aborting.init_transactions(PATIENCE_S)
        aborting.begin_transaction()
        aborting.produce(topic, b"never said", b"r")
        aborting.flush(PATIENCE_S)
        aborting.abort_transaction(PATIENCE_S)
        seen = attendance(settings, "ledger", topics.OUTCOMES, with_age=True)
        assert (seen.behind > 0, seen.oldest_s) == (True, None)
        assert doctors(settings)["ledger"].verdict is Verdict.OK
        send_all(producer, [Outgoing(topic=topics.OUTCOMES, key=b"r", value=UNKNOWN)])
        check = doctors(settings)["ledger"]
    assert (check.verdict, "it is stuck or too slow" in check.found) == (Verdict.FAIL, True), check.found

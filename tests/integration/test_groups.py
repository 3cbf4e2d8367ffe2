"""Groups on the real broker: their timeouts, and the protocol that their members speak."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from agents.worker.jobs import JobSource
from schemas.record import Outgoing
from schemas.topics import RESULTS, jobs_topic
from streams.kafka import clients
from streams.kafka.groups import groups
from streams.kafka.groups.group_terms import Timeouts, Trial, wanted_timeouts
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker


def with_session(settings: Settings, session_ms: int) -> Settings:
    """Also of a length that the settings themselves would refuse."""
    kafka = settings.kafka.model_copy(update={"session_timeout_ms": session_ms})
    return settings.model_copy(update={"kafka": kafka})


def timeouts(settings: Settings, group: str) -> Timeouts:
    resource = ConfigResource(ResourceType.GROUP, group)
    client = AdminClient(clients.client_config(settings))
    reported = client.describe_configs([resource])[resource].result(timeout=PATIENCE_S)
    names = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    return Timeouts(*(int(reported[name].value) for name in names))


@pytest.mark.parametrize(
    ("wanted_ms", "expected"),
    [(6_000, wanted_timeouts(6_000)), (500, Timeouts(1_000, 111)), (90_000, Timeouts(60_000, 6_666))],
)
def test_a_group_gets_the_nearest_timeouts_that_the_broker_allows_before_it_exists(
    settings: Settings, wanted_ms: int, expected: Timeouts
) -> None:
    own, group = with_session(settings, wanted_ms), f"{settings.kafka.prefix}.g"
    assert groups.set_timeouts(own, group) == expected
    # the broker applies what its controller has accepted a moment later
    poll_until(lambda: timeouts(own, group) == expected, f"{group} has {expected}")
    assert groups.set_timeouts(own, group) == expected


def test_this_broker_speaks_the_consumer_protocol(settings: Settings, producer: KafkaRecordProducer) -> None:  # noqa: ARG001
    assert groups.protocol(settings) == "consumer"


def test_of_processes_that_try_the_protocol_at_once_each_learns_it(
    settings: Settings,
    producer: KafkaRecordProducer,  # noqa: ARG001  topics are there
) -> None:
    with ThreadPoolExecutor(4) as pool:
        group = f"{settings.kafka.prefix}.doctor"
        tried = list(pool.map(lambda _: groups.try_consumer_protocol(settings, group, RESULTS), range(4)))
    assert tried == [(Trial.JOINED, "")] * 4, "one of them was given all partitions"


def test_a_job_source_of_the_classic_protocol_takes_and_commits_as_the_other_does(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    kafka = settings.kafka.model_copy(update={"group_protocol": "classic"})
    classic = settings.model_copy(update={"kafka": kafka})
    topic = jobs_topic("light", 1).name
    create_topics(settings, ["light"])
    send_all(producer, [Outgoing(topic=topic, key=None, value=b"%d" % n, partition=0) for n in range(3)])
    with contextlib.closing(JobSource(classic, "light")) as source:
        (first,) = poll_until(lambda: source.take(1, 0.1), "the first job")
        source.begin([first])
        source.commit([first])
    with contextlib.closing(JobSource(classic, "light")) as source:
        taken = poll_until(lambda: source.take(2, 0.1), "the other jobs")
        assert taken[0].record.value == b"1"

"""A classifier whose batch gate is shut does not keep its group waiting when partitions move."""

import contextlib
import pathlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from schemas.record import Outgoing
from schemas.topics import PROMPTS_BATCH, full_name
from streams.codec.avro import encode
from streams.kafka.clients import client_config
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from tests.builders import a_request
from tests.integration.pipeline import ROLES, Pipeline
from tests.integration.waiting import poll_until

SESSION_MS = 6000
SOON_S = 3 * SESSION_MS / 1000  # a member learns of a rebalance at a heartbeat, each third of a session


@pytest.fixture
def pipeline(broker_home: pathlib.Path, tmp_path: pathlib.Path) -> Iterator[Pipeline]:
    settings = load({"home": broker_home, "kafka": {"prefix": "lanes", "session_timeout_ms": SESSION_MS}})
    create_topics(settings, ["light", "heavy"])
    with contextlib.closing(Pipeline(settings, tmp_path)) as pipeline:
        yield pipeline


def members(settings: Settings) -> list[int]:
    """Partitions of each member of the batch consumers' group that has any."""
    client, group = AdminClient(client_config(settings)), full_name(settings.kafka.prefix, "classifier-batch")
    described = client.describe_consumer_groups([group])[group].result(10)
    held = [len(member.assignment.topic_partitions) for member in described.members if member.assignment]
    return sorted(count for count in held if count)


def test_a_second_partition_joins_while_the_gate_of_the_first_is_shut(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = pipeline.settings
    with contextlib.closing(KafkaRecordProducer(settings)) as producer:
        values = [a_request(request_id=f"r-{n}", tier="batch") for n in range(100)]
        send_all(producer, [Outgoing(topic=PROMPTS_BATCH, key=v.request_id.encode(), value=encode(v)) for v in values])
    pipeline.start_role("classifier")
    poll_until(lambda: members(settings) == [4], "the first consumer has all partitions")
    monkeypatch.setitem(ROLES, "classifier-2", ["classifier"])
    pipeline.start_role("classifier-2")
    poll_until(lambda: pipeline.tails().count("classifier-batch is ready") == 2, "the second consumer runs")
    begun = time.monotonic()
    poll_until(lambda: members(settings) == [2, 2], "both consumers have their partitions")
    assert time.monotonic() - begun < SOON_S

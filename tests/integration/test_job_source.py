"""What a worker finds when its call ends."""

import contextlib

import pytest
from confluent_kafka import TopicPartition

from agents.worker.jobs import JobSource
from schemas.record import Outgoing
from schemas.topics import full_name, jobs_topic
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.waiting import poll_until

pytestmark = pytest.mark.integration

JOBS = jobs_topic("light", 1)


def test_jobs_that_come_one_by_one_during_a_call_are_all_there_for_the_next(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    create_topics(settings, ["light"])
    place = TopicPartition(full_name(settings.kafka.prefix, JOBS.name), 0)
    with contextlib.closing(JobSource(settings, "light")) as source:

        def come(number: int) -> None:
            send_all(producer, [Outgoing(topic=JOBS.name, key=None, value=b"%d" % number, partition=0)])

        come(0)
        poll_until(lambda: source.take(1, 0.1), "the first job")
        for number in (1, 2, 3):
            come(number)
            poll_until(lambda: fetched(source, place) > number, f"job {number} is fetched while nobody asks")  # noqa: B023
        assert [taken.record.value for taken in source.take(4, 5.0)] == [b"1", b"2", b"3"]


def fetched(source: JobSource, place: TopicPartition) -> int:
    """The end of the partition as the last fetch gave it, without asking the broker."""
    return int(source._consumer.get_watermark_offsets(place, cached=True)[1])

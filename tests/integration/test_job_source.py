"""What a worker finds when its call ends, and when its client fetches nothing more."""

import contextlib

import pytest
from confluent_kafka import Producer, TopicPartition

from agents.worker.jobs import JobSource
from schemas.record import Outgoing
from schemas.topics import full_name, jobs_topic
from streams.kafka.clients import client_config
from streams.kafka.groups.fetch_watch import WAIT_S
from streams.kafka.groups.members import IdleMember, MembershipLost
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.waiting import poll_until
from tests.patience import Clock

pytestmark = pytest.mark.broker

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


def test_a_worker_whose_fetches_stand_still_joins_anew_and_takes_what_lies_there(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    create_topics(settings, ["light"])
    place, clock = TopicPartition(full_name(settings.kafka.prefix, JOBS.name), 0), Clock()
    with contextlib.closing(JobSource(settings, "light")) as source:
        source._idle = IdleMember(settings, "pochade.light", clock)
        send_all(producer, [Outgoing(topic=JOBS.name, key=None, value=b"0", partition=0)])
        poll_until(lambda: source.take(1, 0.1), "the first job")
        assert not source.take(1, 0)
        clock.now_s += WAIT_S
        assert not source.take(1, 0), "it is idle, and nothing lies there"
        source._consumer.pause([place])  # as if librdkafka had forgotten the partition
        send_all(producer, [Outgoing(topic=JOBS.name, key=None, value=b"1", partition=0)])
        clock.now_s += WAIT_S
        assert not source.take(1, 0), "a job that has just come is on its way"
        clock.now_s += WAIT_S
        with pytest.raises(MembershipLost, match=r"gives this member no records, though some lie on \S+light\S* \[0\]"):
            source.take(1, 0)
    with contextlib.closing(JobSource(settings, "light")) as source:
        first = poll_until(lambda: source.take(1, 0.1), "the first job, as nothing was committed")
        assert [each.record.value for each in [*first, *source.take(1, 5.0)]] == [b"0", b"1"]


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
def test_a_worker_ahead_of_which_only_a_marker_lies_stays(settings: Settings, end: str) -> None:
    create_topics(settings, ["light"])
    clock = Clock()
    with contextlib.closing(JobSource(settings, "light")) as source:
        source._idle = IdleMember(settings, "pochade.light", clock)
        stranger = Producer({**client_config(settings), "transactional.id": f"{settings.kafka.prefix}.stranger"})
        stranger.init_transactions(30)
        stranger.begin_transaction()
        stranger.produce(full_name(settings.kafka.prefix, JOBS.name), b"v", partition=0)
        stranger.flush(30)
        getattr(stranger, end)(30)
        poll_until(lambda: source.take(1, 0.1) or (source._next and end != "commit_transaction"), "the job")
        for _ in range(4):
            assert not source.take(1, 0)
            clock.now_s += WAIT_S


def fetched(source: JobSource, place: TopicPartition) -> int:
    """The end of the partition as the last fetch gave it, without asking the broker."""
    return int(source._consumer.get_watermark_offsets(place, cached=True)[1])

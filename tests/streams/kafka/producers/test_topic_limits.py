"""What a topic takes: given by the cluster, or learnt from what it refused."""

import dataclasses
from concurrent.futures import Future

import pytest

from schemas.record import Delivered, Outgoing
from schemas.topics import CLASSIFIED, DLQ, PROMPTS
from streams.kafka.producers.topic_limits import FRAME_BYTES, MIN_BYTES, TopicLimits, batching, written
from streams.kafka.producers.writing import MAX_BYTES, RecordTooLarge, size_of
from tests.memory_kafka import MemoryRecordProducer


def record(size: int, topic: str = CLASSIFIED) -> Outgoing:
    return Outgoing(topic=topic, key=None, value=b"x" * size)


def test_a_record_may_be_as_large_as_its_topic_takes_less_the_frame_of_a_batch() -> None:
    limits = TopicLimits({CLASSIFIED: 6000})
    limits.check(record(6000 - FRAME_BYTES))
    with pytest.raises(RecordTooLarge, match=r"classified.v1 may have 5900 bytes.*got 5901"):
        limits.check(record(6000 - FRAME_BYTES + 1))


def test_a_topic_that_takes_more_than_the_client_does_not_raise_the_clients_limit() -> None:
    assert TopicLimits({CLASSIFIED: 50_000_000}).of(CLASSIFIED) == MAX_BYTES


def test_of_a_topic_that_nobody_told_of_the_clients_limit_holds() -> None:
    assert TopicLimits({CLASSIFIED: 6000}).of(PROMPTS) == MAX_BYTES


def test_headers_count_with_their_framing() -> None:
    plain = record(10)
    assert size_of(dataclasses.replace(plain, headers={"ab": b"cde"})) > size_of(plain) + 5


def test_what_was_refused_is_learnt_where_nobody_tells_the_limit() -> None:
    limits = TopicLimits()
    limits.refused(record(7000))
    limits.check(record(6999))
    with pytest.raises(RecordTooLarge):
        limits.check(record(7000))


def test_what_the_cluster_told_is_not_overruled_by_a_refusal() -> None:
    limits = TopicLimits({CLASSIFIED: 6000})
    limits.refused(record(500))
    assert limits.of(CLASSIFIED) == 6000 - FRAME_BYTES


def test_a_refusal_of_a_record_alone_overrules_what_the_cluster_had_told_until_it_tells_anew() -> None:
    limits = TopicLimits({CLASSIFIED: 6000})
    limits.refused(record(500), was_alone=True)
    assert limits.of(CLASSIFIED) == 499
    limits.learn({CLASSIFIED: 6000})
    assert limits.of(CLASSIFIED) == 6000 - FRAME_BYTES


def test_the_limit_of_dead_letters_falls_by_halves_and_never_to_nothing() -> None:
    limits = TopicLimits()
    for _ in range(40):
        limits.refused(record(limits.of(DLQ), DLQ))
    assert limits.of(DLQ) == MIN_BYTES


def test_no_batch_is_larger_than_the_smallest_topic_takes() -> None:
    assert batching(TopicLimits({CLASSIFIED: 6000, DLQ: 900, PROMPTS: 1_048_576})) == {"batch.size": 900}
    assert batching(TopicLimits({PROMPTS: 1_048_576})) == {}
    assert TopicLimits({CLASSIFIED: 6000, DLQ: 900}).batch_bytes({CLASSIFIED, PROMPTS}) == 6000


class Refusing(MemoryRecordProducer):
    """Refuses for their size as many sends as it is asked to."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self._refusals = refusals

    def send(self, record: Outgoing) -> Future[Delivered]:
        if self._refusals == 0:
            return super().send(record)
        self._refusals -= 1
        future = Future[Delivered]()
        future.set_exception(RecordTooLarge("too large"))
        return future


def test_a_record_that_shared_its_batch_with_too_many_is_sent_again() -> None:
    producer, limits = Refusing(1), TopicLimits()
    assert written(producer, record(7), producer.send(record(7)), 1, limits).offset == 0
    assert limits.of(CLASSIFIED) == MAX_BYTES


def test_a_record_that_is_refused_by_itself_is_reported_before_it_is_sent_the_next_time() -> None:
    producer, limits = Refusing(99), TopicLimits()
    with pytest.raises(RecordTooLarge):
        written(producer, record(700), producer.send(record(700)), 1, limits)
    with pytest.raises(RecordTooLarge):
        limits.check(record(700))
    limits.check(record(600))

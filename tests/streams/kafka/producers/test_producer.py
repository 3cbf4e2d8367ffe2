"""The shipped fake keeps the producer's contract; and what the real one does when no broker is there."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from schemas.record import Delivered, Outgoing
from schemas.topics import EVENTS
from streams.kafka.producers import producer as module
from streams.kafka.producers.producer import FLUSH_S, KafkaRecordProducer
from streams.kafka.producers.topic_limits import TopicLimits
from streams.kafka.producers.writing import MAX_BYTES, DeliveryFailed, RecordTooLarge, send_all, size_of
from streams.settings import load
from tests.memory_kafka import MemoryRecordProducer
from tests.patience import PATIENCE_S
from tests.streams.kafka.producer_contract import ReadBack, RecordProducerContract, Written, a_note


@pytest.fixture
def alone() -> Iterator[KafkaRecordProducer]:
    """A real client without a broker."""
    settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1", "properties": {"log_level": "0"}}})
    producer = KafkaRecordProducer(settings, extra={"message.timeout.ms": 100})
    yield producer
    producer.close()


class TestMemoryRecordProducer(RecordProducerContract):
    @pytest.fixture
    def producer(self) -> MemoryRecordProducer:
        return MemoryRecordProducer()

    @pytest.fixture
    def read_back(self, producer: MemoryRecordProducer) -> ReadBack:
        def read(count: int) -> list[Written]:
            log, ends = producer.topics[EVENTS], dict.fromkeys(range(4), 0)
            found = []
            for record in log:
                partition = record.partition or 0
                place = Delivered(partition=partition, offset=ends[partition])
                ends[partition] += 1
                found.append(Written(place, record.key, record.value, dict(record.headers)))
            assert len(found) == count
            return sorted(found, key=lambda written: (written.at.partition, written.at.offset))

        return read


def test_a_broker_that_is_away_fails_the_future_in_time(alone: KafkaRecordProducer) -> None:
    with pytest.raises(DeliveryFailed, match="did not take a record"):
        send_all(alone, [a_note()], 30)


def test_who_waits_for_records_hears_of_a_silent_broker_as_of_a_refusal(alone: KafkaRecordProducer) -> None:
    with pytest.raises(DeliveryFailed, match=r"events.v1 did not take a record within 0.01 s"):
        send_all(alone, [a_note()], 0.01)


def test_a_producer_without_a_broker_closes_in_time_and_says_what_was_not_delivered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 0.01)
    settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1", "properties": {"log_level": "0"}}})
    producer = KafkaRecordProducer(settings)
    for _ in range(2):
        producer.send(a_note())
    producer.close()
    assert "2 records were not delivered: no broker took them" in caplog.text
    assert load({}).shutdown_timeout_s > FLUSH_S


def test_an_awaiting_task_that_is_cancelled_does_not_end_the_delivery_reports(alone: KafkaRecordProducer) -> None:
    async def give_up(future: "Future[Delivered]") -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(future), 0.001)

    asyncio.run(give_up(alone.send(a_note())))
    assert isinstance(alone.send(a_note()).exception(30), DeliveryFailed)
    assert alone._reports.is_alive()


def test_a_record_beyond_the_clients_own_limit_fails_its_future_only(alone: KafkaRecordProducer) -> None:
    with pytest.raises(DeliveryFailed, match="too large"):
        alone.send(a_note(value=b"x" * 1_000_001)).result(PATIENCE_S)


def test_what_passes_the_size_check_is_taken_by_the_client(alone: KafkaRecordProducer) -> None:
    headers = {f"name-{n}": b"x" * 100 for n in range(40)}
    used = size_of(Outgoing(topic=EVENTS, key=b"k", value=b"", headers=headers))
    largest = Outgoing(topic=EVENTS, key=b"k", value=b"x" * (MAX_BYTES - used), headers=headers)
    TopicLimits().check(largest)
    with pytest.raises(DeliveryFailed, match="timed out"):  # queued, and only then without a broker
        alone.send(largest).result(PATIENCE_S)
    with pytest.raises(RecordTooLarge, match=r"990000 bytes.*got 990001"):
        TopicLimits().check(Outgoing(topic=EVENTS, key=b"kk", value=largest.value, headers=headers))


def test_a_producer_that_can_never_write_again_ends_the_process(
    alone: KafkaRecordProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fenced:
        def produce(self, *_: object, **__: object) -> None:
            raise KafkaException(KafkaError(KafkaError._FATAL, "out of order", True))

    ended: list[int] = []
    monkeypatch.setattr(module.os, "_exit", ended.append)
    with monkeypatch.context() as patch:
        patch.setattr(alone, "client", Fenced())
        alone.send(a_note())
    assert ended == [70]

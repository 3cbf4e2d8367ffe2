"""The real producer keeps the producer's contract on the real broker."""

from collections.abc import Iterator

import pytest

from schemas.record import Delivered, Incoming
from schemas.topics import EVENTS
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.waiting import poll_until
from tests.streams.kafka.producer_contract import ReadBack, RecordProducerContract, Written

pytestmark = pytest.mark.broker


class TestKafkaRecordProducer(RecordProducerContract):
    @pytest.fixture
    def producer(self, settings: Settings) -> Iterator[KafkaRecordProducer]:
        create_topics(settings)
        producer = KafkaRecordProducer(settings)
        yield producer
        producer.close()

    @pytest.fixture
    def read_back(self, producer: KafkaRecordProducer, settings: Settings) -> Iterator[ReadBack]:
        assert producer  # which has created the topics
        found: list[Incoming] = []
        follower = TopicTailer(settings, [EVENTS], found.append).start()

        def read(count: int) -> list[Written]:
            poll_until(lambda: len(found) >= count, f"{count} records")
            written = [
                Written(Delivered(partition=r.partition, offset=r.offset), r.key, r.value, dict(r.headers))
                for r in found
            ]
            return sorted(written, key=lambda w: (w.at.partition, w.at.offset))

        yield read
        follower.close()

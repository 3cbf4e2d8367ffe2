"""What every `RecordProducer` keeps: run on the shipped fake always, on the real broker in integration."""

import threading
from collections.abc import Callable
from typing import NamedTuple

from schemas.record import Delivered, Outgoing
from schemas.topics import EVENTS
from streams.kafka.producers.writing import RecordProducer, send_all
from tests.patience import PATIENCE_S


class Written(NamedTuple):
    """A record as a reader finds it."""

    at: Delivered
    key: bytes | None
    value: bytes | None
    headers: dict[str, bytes]


ReadBack = Callable[[int], list[Written]]  # how many to wait for -> what lies on EVENTS, by partition and offset


def a_note(key: bytes | None = b"r-1", value: bytes | None = b"v", partition: int | None = None) -> Outgoing:
    return Outgoing(topic=EVENTS, key=key, value=value, partition=partition)


class RecordProducerContract:
    """Subclasses give the fixtures `producer` and `read_back`."""

    def test_a_future_says_where_the_record_lies(self, producer: RecordProducer, read_back: ReadBack) -> None:
        delivered = producer.send(a_note()).result(PATIENCE_S)
        assert [written.at for written in read_back(1)] == [delivered]

    def test_key_value_and_headers_arrive_unchanged(self, producer: RecordProducer, read_back: ReadBack) -> None:
        record = Outgoing(topic=EVENTS, key=b"\xff\x00", value=b"\x00\x01", headers={"a": b"\xfe", "b": b""})
        producer.send(record).result(PATIENCE_S)
        (written,) = read_back(1)
        assert (written.key, written.value, written.headers) == (record.key, record.value, record.headers)

    def test_a_record_may_lack_key_and_value(self, producer: RecordProducer, read_back: ReadBack) -> None:
        producer.send(a_note(key=None, value=None)).result(PATIENCE_S)
        (written,) = read_back(1)
        assert (written.key, written.value) == (None, None)

    def test_a_named_partition_is_obeyed_and_its_order_kept(
        self, producer: RecordProducer, read_back: ReadBack
    ) -> None:
        sent = [a_note(value=b"%d" % n, partition=n % 2) for n in range(20)]
        delivered = send_all(producer, sent, 30)
        assert [d.partition for d in delivered] == [n % 2 for n in range(20)]
        for partition in (0, 1):
            values = [written.value for written in read_back(20) if written.at.partition == partition]
            assert values == [b"%d" % n for n in range(20) if n % 2 == partition]

    def test_the_same_key_goes_to_the_same_partition(self, producer: RecordProducer) -> None:
        delivered = send_all(producer, [a_note(key=b"r-7") for _ in range(5)], 30)
        assert len({d.partition for d in delivered}) == 1
        assert [d.offset for d in delivered] == sorted({d.offset for d in delivered})

    def test_many_threads_may_send(self, producer: RecordProducer, read_back: ReadBack) -> None:
        places: list[Delivered] = []

        def send() -> None:
            places.extend(send_all(producer, [a_note(key=b"%d" % n) for n in range(50)], 30))

        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(set(places)) == 200
        assert {written.at for written in read_back(200)} == set(places)

    def test_a_waiter_that_gives_up_takes_nothing_back(self, producer: RecordProducer, read_back: ReadBack) -> None:
        assert not producer.send(a_note(value=b"first")).cancel()
        producer.send(a_note(value=b"second")).result(PATIENCE_S)
        assert [written.value for written in read_back(2)] == [b"first", b"second"]

    def test_closing_waits_for_what_is_queued(self, producer: RecordProducer) -> None:
        futures = [producer.send(a_note(key=b"%d" % n)) for n in range(100)]
        producer.close()
        assert all(future.done() and future.exception() is None for future in futures)

"""Followers on the real broker: the past, then what comes, and nothing stops them."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer

from schemas.record import Incoming, Outgoing
from schemas.topics import EVENTS, PLAN, RESULTS
from streams.clock import now_ms
from streams.faust.consumer import seek_to_committed
from streams.kafka.clients import client_config, topic_name
from streams.kafka.consumers import shared_reader
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.following import await_reading_on
from tests.integration.markers import end_with_markers
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker


@contextlib.contextmanager
def following(
    settings: Settings, topics: list[str], on_record: Callable[[Incoming], None], since_ms: int | None = 0
) -> Iterator[TopicTailer]:
    follower = TopicTailer(settings, topics, on_record, since_ms=since_ms)
    try:
        follower.start().wait_caught_up(30)
        yield follower
    finally:
        follower.close()


def write(producer: KafkaRecordProducer, *values: bytes, topic: str = EVENTS) -> None:
    send_all(producer, [Outgoing(topic=topic, key=value, value=value) for value in values], 30)


def values(heard: list[Incoming]) -> list[bytes | None]:
    return sorted(record.value or b"" for record in heard)  # type: ignore[return-value]


def test_the_past_is_handed_over_before_it_is_caught_up_and_the_future_after(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    write(producer, *(b"%03d" % n for n in range(100)))
    heard: list[Incoming] = []
    with following(settings, [EVENTS], heard.append) as follower:
        assert values(heard) == [b"%03d" % n for n in range(100)]
        assert {record.topic for record in heard} == {EVENTS}
        write(producer, b"later")
        poll_until(lambda: len(heard) == 101, "the record after the past")
        await_reading_on(follower)
        write(producer, *(b"%03d" % n for n in range(101, 120)))
        poll_until(lambda: len(heard) == 120, "the records after the change of client")
    for partition in range(4):
        offsets = [record.offset for record in heard if record.partition == partition]
        assert offsets == list(range(len(offsets)))


def test_an_empty_topic_is_caught_up_at_once(settings: Settings, producer: KafkaRecordProducer) -> None:
    assert producer  # the topics are there
    heard: list[Incoming] = []
    with following(settings, [EVENTS, PLAN], heard.append) as follower:
        assert follower.is_caught_up.is_set()
    assert heard == []


def test_since_a_moment_only_what_is_younger_is_read(settings: Settings, producer: KafkaRecordProducer) -> None:
    write(producer, b"old-1", b"old-2", b"old-3")
    written_ms = now_ms()
    poll_until(lambda: now_ms() > written_ms + 1, "the next moment")
    since_ms = now_ms()
    write(producer, b"young-1", b"young-2")
    heard: list[Incoming] = []
    with following(settings, [EVENTS], heard.append, since_ms):
        assert values(heard) == [b"young-1", b"young-2"]


def test_since_a_moment_after_all_records_what_comes_is_read(settings: Settings, producer: KafkaRecordProducer) -> None:
    write(producer, b"old")
    heard: list[Incoming] = []
    written_ms = now_ms()
    poll_until(lambda: now_ms() > written_ms, "the next moment")
    with following(settings, [EVENTS], heard.append, now_ms()):
        write(producer, b"new")
        poll_until(lambda: heard, "the new record")
    assert values(heard) == [b"new"]


def test_from_now_on_leaves_out_all_that_is_there(settings: Settings, producer: KafkaRecordProducer) -> None:
    write(producer, b"old-1", b"old-2")
    heard: list[Incoming] = []
    with following(settings, [EVENTS], heard.append, None):
        write(producer, b"new")
        poll_until(lambda: heard, "the new record")
    assert values(heard) == [b"new"]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_a_topic_whose_tail_is_a_transactions_marker_is_caught_up(
    settings: Settings, producer: KafkaRecordProducer, end: str
) -> None:
    assert producer  # the topics are there
    wanted = end_with_markers(settings, end)
    heard: list[Incoming] = []
    with following(settings, [RESULTS], heard.append) as follower:
        assert len(heard) == wanted
        await_reading_on(follower)
        write(producer, b"later", topic=RESULTS)
        poll_until(lambda: len(heard) == wanted + 1, "the record behind the markers")
    assert len({(record.partition, record.offset) for record in heard}) == len(heard)


def test_a_record_that_cannot_be_used_does_not_hide_those_behind_it(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    heard: list[bytes | None] = []

    def on_record(record: Incoming) -> None:
        if record.value == b"bad":
            raise KeyError("bad")
        heard.append(record.value)

    send_all(producer, [Outgoing(topic=EVENTS, key=b"k", value=v) for v in (b"a", b"bad", b"b")], 30)
    with following(settings, [EVENTS], on_record):
        assert heard == [b"a", b"b"]
        write(producer, b"bad")
        write(producer, b"c")
        poll_until(lambda: b"c" in heard, "the record behind the second bad one")


def test_a_follower_that_hangs_in_a_record_delays_no_other_and_gets_all_in_the_end(
    settings: Settings, producer: KafkaRecordProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_reader, "MAX_WAITING", 50)
    frozen, ends = threading.Event(), threading.Event()
    late, heard, planned = list[bytes | None](), list[bytes | None](), list[bytes | None]()

    def hang(record: Incoming) -> None:
        frozen.set()
        assert ends.wait(PATIENCE_S)
        late.append(record.value)

    with contextlib.ExitStack() as stack:
        stack.callback(ends.set)
        followers = [
            stack.enter_context(following(settings, [topic], on_record))
            for topic, on_record in (
                (EVENTS, hang), (EVENTS, lambda record: heard.append(record.value)),
                (PLAN, lambda record: planned.append(record.value)),
            )
        ]  # fmt: skip
        await_reading_on(*followers)
        assert sum(thread.name == "follow" for thread in threading.enumerate()) == 1
        expected = [b"%03d" % number for number in range(200)]
        write(producer, *expected)
        write(producer, b"plan", topic=PLAN)
        assert frozen.wait(PATIENCE_S)
        poll_until(lambda: len(heard) == 200 and planned == [b"plan"], "what the others follow")
        assert late == []
        ends.set()
        poll_until(lambda: len(late) == 200, "what waited")
    assert sorted(late) == expected  # type: ignore[type-var]
    assert not shared_reader._READERS


def test_a_topic_that_comes_later_is_followed_when_it_is_there(settings: Settings) -> None:
    heard: list[Incoming] = []
    follower = TopicTailer(settings, [EVENTS], heard.append).start()
    try:
        assert not follower.is_caught_up.wait(0.1)
        create_topics(settings)
        follower.wait_caught_up(30)
        producer = KafkaRecordProducer(settings)
        write(producer, b"first")
        producer.close()
        poll_until(lambda: heard, "the first record")
    finally:
        follower.close()


def test_what_a_role_fetched_and_dropped_as_partitions_moved_is_fetched_again(
    settings: Settings, producer: KafkaRecordProducer
) -> None:
    write(producer, *(b"%03d" % n for n in range(40)))

    async def fetched(consumer: AIOKafkaConsumer) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        while sum(map(len, found.values())) < 40:
            for place, records in (await consumer.getmany(timeout_ms=1000)).items():
                found.setdefault(place.partition, []).extend(record.offset for record in records)
        return found

    async def scenario() -> None:
        servers = client_config(settings)["bootstrap.servers"]
        group = {"group_id": f"{settings.kafka.prefix}.g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with AIOKafkaConsumer(topic_name(settings, EVENTS), bootstrap_servers=servers, **group) as consumer:
            async with asyncio.timeout(PATIENCE_S):
                first = await fetched(consumer)
                assert set((await seek_to_committed(consumer)).values()) == {None}
                assert await fetched(consumer) == first, "nothing is committed: from each partition's first record on"
                one = next(place for place in consumer.assignment() if place.partition == 0)
                await consumer.commit({one: 2})
                assert (await seek_to_committed(consumer))[one] == 2
                place_of = {place.partition: await consumer.position(place) for place in consumer.assignment()}
                assert place_of == {0: 2, 1: 0, 2: 0, 3: 0}

    asyncio.run(scenario())

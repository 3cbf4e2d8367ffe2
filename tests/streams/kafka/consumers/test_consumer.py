# ruff: noqa: ARG002, ARG005  the client's own names
"""Batches and starting points, on a scripted consumer."""

import threading
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import EVENTS
from streams import metrics
from streams.kafka.consumers import consumer as reading
from streams.kafka.consumers import consumer_factory
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.consumers.polling import NAMELESS, headers_of, incoming, poll_batch, take
from streams.settings import load
from tests.patience import PATIENCE_S
from tests.raw_batches import a_batch, write_batch


def a_message(value: bytes = b"v", error: int | None = None) -> Message:
    failure = None if error is None else KafkaError(error)
    where = {"topic": "pochade.events.v1", "partition": 3, "offset": 9, "timestamp": (1, 1234)}
    return Message(**where, value=value, headers=[("a", b"1"), ("none", None)], error=failure)


class FakeConsumer:
    """Has messages ready; notes how long each call would have waited."""

    def __init__(self, *ready: Message) -> None:
        self.ready, self.waits = list(ready), list[float]()

    def poll(self, timeout: float) -> Message | None:
        self.waits.append(timeout)
        return self.ready.pop(0) if self.ready else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        self.waits.append(timeout)
        taken, self.ready = self.ready[:most], self.ready[most:]
        return taken


def values(messages: list[Any]) -> list[bytes]:
    return [message.value() for message in messages]


def test_a_message_becomes_a_value_without_the_prefix() -> None:
    record = incoming(a_message(), "pochade")  # type: ignore[arg-type]
    assert (record.topic, record.partition, record.offset, record.timestamp_ms) == (EVENTS, 3, 9, 1234)
    assert (record.key, record.value, record.headers) == (None, b"v", {"a": b"1", "none": b""})


def test_a_batch_waits_for_its_first_record_only() -> None:
    consumer = FakeConsumer(*(a_message(b"%d" % n) for n in range(5)))
    assert values(poll_batch(consumer, 3, 7.0)) == [b"0", b"1", b"2"]  # type: ignore[arg-type]
    assert consumer.waits == [7.0, 0]
    assert values(poll_batch(FakeConsumer(), 3, 7.0)) == []  # type: ignore[arg-type]


def test_a_batch_of_one_takes_no_second() -> None:
    consumer = FakeConsumer(a_message(b"0"), a_message(b"1"))
    assert values(poll_batch(consumer, 1, 0.0)) == [b"0"]  # type: ignore[arg-type]
    assert len(consumer.ready) == 1


def test_what_passes_by_itself_is_left_out() -> None:
    consumer = FakeConsumer(a_message(b"0"), a_message(error=KafkaError._TRANSPORT), a_message(b"1"))
    assert values(take(consumer, 3, 0.0)) == [b"0", b"1"]  # type: ignore[arg-type]


def test_what_a_follower_cannot_use_is_counted_and_the_next_is_handed_over() -> None:
    used: list[bytes | None] = []

    def use(record: Incoming) -> None:
        if record.value == b"bad":
            raise ValueError(record.value)
        used.append(record.value)

    follower = TopicTailer(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), [EVENTS], use)
    counter = metrics.UNUSABLE.labels(EVENTS)
    before = counter._value.get()
    for value in (b"a", b"bad", b"b"):
        follower._hand_over(a_message(value))  # type: ignore[arg-type]
    follower.close()
    assert (used, counter._value.get() - before) == ([b"a", b"b"], 1)


def test_what_does_not_pass_by_itself_raises() -> None:
    consumer = FakeConsumer(a_message(b"0"), a_message(error=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException):
        take(consumer, 3, 0.0)  # type: ignore[arg-type]


class FakeTopic:
    """A consumer that knows where a topic with two partitions begins, ends and was at a moment."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.asked: list[str] = []
        self.errors: dict[int, KafkaError] = {}

    def list_topics(self, name: str, timeout: float) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(error=None, partitions={0: None, 1: None})})

    def get_watermark_offsets(self, tp: TopicPartition, timeout: float) -> tuple[int, int]:
        self.asked.append("ends")
        return (0, 40 + tp.partition)

    def offsets_for_times(self, asked: list[TopicPartition], timeout: float) -> list[Any]:
        self.asked.append("times")
        found = {0: 17, 1: -1}  # partition 1 holds nothing that young
        return [
            SimpleNamespace(partition=tp.partition, offset=found[tp.partition], error=self.errors.get(tp.partition))
            for tp in asked
        ]

    def close(self) -> None: ...


@pytest.fixture
def follower() -> TopicTailer:
    return TopicTailer(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), [EVENTS], lambda record: None, since_ms=5)


def test_a_partition_without_anything_so_young_begins_at_the_end_it_had_before_the_question(
    follower: TopicTailer,
) -> None:
    topic = FakeTopic({})
    starts = follower._starts(topic, EVENTS)  # type: ignore[arg-type]
    assert [(tp.partition, tp.offset) for tp in starts] == [(0, 17), (1, 41)]
    assert topic.asked == ["ends", "ends", "times"]


def test_a_partition_whose_place_is_not_told_is_asked_for_again_not_skipped(follower: TopicTailer) -> None:
    topic = FakeTopic({})
    topic.errors[1] = KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    with pytest.raises(KafkaException):
        follower._starts(topic, EVENTS)  # type: ignore[arg-type]


class FakeLog:
    """A partition with records, an empty one, and one that ends in markers of transactions."""

    opened: ClassVar[list["FakeLog"]] = []
    has_read_on: ClassVar[threading.Event] = threading.Event()
    ENDS: Final = {0: 2, 1: 0, 2: 5}  # partition -> end; 3 and 4 of partition 2 are markers
    RECORDS: Final = [(0, 0), (0, 1), (2, 2)]

    def __init__(self, config: dict[str, Any]) -> None:
        self.wait_ms = config["fetch.wait.max.ms"]
        self.assigned: list[TopicPartition] = []
        self.ready: list[Message] = []
        self.closed = threading.Event()
        self.opened.append(self)

    def list_topics(self, name: str, timeout: float) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(error=None, partitions=dict.fromkeys(self.ENDS))})

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned = places
        if len(self.opened) == 1:
            self.ready = [self._message(*place) for place in self.RECORDS]
            self.ready += [self._message(*place, KafkaError(KafkaError._PARTITION_EOF)) for place in self.ENDS.items()]
        else:
            self.has_read_on.set()

    def _message(self, partition: int, offset: int, error: KafkaError | None = None) -> Message:
        return Message(
            topic=f"pochade.{EVENTS}", partition=partition, offset=offset, value=b"v", timestamp=(1, 1), error=error
        )

    def assignment(self) -> list[TopicPartition]:
        return self.assigned

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        after = {partition: offset + 1 for partition, offset in self.RECORDS}
        return [TopicPartition(tp.topic, tp.partition, after.get(tp.partition, OFFSET_INVALID)) for tp in places]

    def poll(self, timeout: float) -> Message | None:
        return self.ready.pop(0) if self.ready else None

    def consume(self, most: int, timeout: float) -> list[Message]:
        taken, self.ready = self.ready, []
        return taken

    def close(self) -> None:
        self.closed.set()


def test_what_comes_after_the_past_is_read_from_its_end_on_by_a_client_that_lets_the_broker_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer_factory, "Consumer", FakeLog)
    monkeypatch.setattr(FakeLog, "opened", [])
    heard: list[Incoming] = []
    follower = TopicTailer(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), [EVENTS], heard.append).start()
    assert FakeLog.has_read_on.wait(PATIENCE_S)
    follower.close()
    past, later = FakeLog.opened
    assert past.closed.is_set()
    assert [(record.partition, record.offset) for record in heard] == FakeLog.RECORDS
    assert {tp.partition: tp.offset for tp in later.assigned} == FakeLog.ENDS
    assert past.wait_ms == consumer_factory.AT_AN_END_MS < consumer_factory.FOLLOWING_MS == later.wait_ms
    assert later.closed.is_set()


def test_header_names_that_are_no_text_cost_their_names_however_often_they_are_asked_for() -> None:
    odd = [(b"\xff\xfe", b"1"), (b"good", b"2"), (b"none", None)]
    keeper = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": 1, "log_level": 2})
    (host,) = keeper.list_topics("t", timeout=PATIENCE_S).brokers.values()
    address = f"{host.host}:{host.port}"
    good = [(None, b"v", [(b"good", b"1")])] * 50
    write_batch(address, "t", a_batch(*good, (None, b"v", odd), (None, b"v", odd[:1])))
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "log_level": 2})
    consumer.assign([TopicPartition("t", 0, 0)])
    messages = consumer.consume(52, PATIENCE_S)
    # the first make the calls specialised, as they are in a role that runs: only then the client's error goes unnoticed
    assert [headers_of(message) for message in messages[:50]] == [{"good": b"1"}] * 50
    for _ in range(2):
        assert headers_of(messages[50]) == {NAMELESS: b"1", "good": b"2", "none": b""}
        assert headers_of(messages[51]) == {NAMELESS: b"1"}
    consumer.close()


def test_a_follower_that_hangs_in_a_record_does_not_hang_who_closes_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hangs, ends, closed = threading.Event(), threading.Event(), list[str]()

    class OneRecord(FakeTopic):
        def assign(self, starts: list[TopicPartition]) -> None: ...

        def assignment(self) -> list[TopicPartition]:
            return []

        def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
            return places

        def poll(self, timeout: float) -> Message | None:
            return None if hangs.is_set() else a_message()

        def consume(self, most: int, timeout: float) -> list[Message]:
            return []

        def close(self) -> None:
            closed.append("closed")

    def on_record(_record: Incoming) -> None:
        hangs.set()
        assert ends.wait(PATIENCE_S)

    monkeypatch.setattr(consumer_factory, "Consumer", OneRecord)
    monkeypatch.setattr(reading, "CLOSE_S", 0.01)
    follower = TopicTailer(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), [EVENTS], on_record).start()
    assert hangs.wait(PATIENCE_S)
    follower.close()
    assert closed == [], "its client is in use"
    assert "did not stop within 0.01 s" in caplog.text
    ends.set()
    follower._thread.join(PATIENCE_S)
    assert closed == ["closed"]


@pytest.mark.parametrize(
    ("code", "why"),
    [(KafkaError.UNKNOWN_TOPIC_OR_PART, "Unknown topic or partition"), (KafkaError._TRANSPORT, "is the broker reach")],
)
def test_what_hinders_a_follower_is_logged_once_a_minute_and_is_the_reason_of_who_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int, why: str
) -> None:
    has_asked_again = threading.Event()
    asked = list[float]()

    class NoTopic(FakeTopic):
        def list_topics(self, name: str, timeout: float) -> Any:
            asked.append(timeout)
            if len(asked) > 3:
                has_asked_again.set()
            raise KafkaException(KafkaError(code))

        def assignment(self) -> list[TopicPartition]:
            return []

        def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
            return partitions

    monkeypatch.setattr(consumer_factory, "Consumer", NoTopic)
    monkeypatch.setattr(reading, "AGAIN_S", 0.001)
    settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1", "prefix": "shop"}})
    follower = TopicTailer(settings, [EVENTS], lambda record: None).start()
    try:
        assert has_asked_again.wait(PATIENCE_S)
        with pytest.raises(PochadeError, match=f"could not read {EVENTS} of shop to its end within 0 s: .*{why}"):
            follower.wait_caught_up(0)
    finally:
        follower.close()
    lines = [line for line in caplog.messages if "trying on" in line]
    assert len(lines) == 1, lines
    monkeypatch.setattr(reading, "SAY_AGAIN_S", 0.0)
    follower._meet(KafkaError(code))
    assert len([line for line in caplog.messages if "trying on" in line]) == 2

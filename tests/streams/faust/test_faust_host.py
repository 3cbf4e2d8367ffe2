# ruff: noqa: ARG002  the ports name their arguments
"""The Faust host's rules, on a scripted stream: acked in order after the acks, nothing escapes, the next is served."""

import asyncio
import pathlib
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from schemas.errors import InvalidRecord
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import DLQ, EVENTS, OUTCOMES, PROMPTS
from streams.faust import host as faust_host
from streams.faust.host import AgentHost
from streams.faust.record_sets import Undecodable, Undecoded
from streams.kafka.producers.topic_limits import TopicLimits
from streams.kafka.producers.writing import MAX_BYTES, DeliveryFailed, RecordTooLarge, size_of
from streams.settings import load
from tests.memory_kafka import MemoryRecordProducer
from tests.streams.kafka.scripted import Event, Stream


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> TopicLimits:
    """What topics take: nothing is known, and nobody answers; resends come at once."""
    limits = TopicLimits()
    monkeypatch.setattr(faust_host, "LIMITS", limits)
    monkeypatch.setattr(faust_host, "ask", lambda _settings: False)
    monkeypatch.setattr(faust_host, "RESEND_WAITS_S", (0.0,) * 5)
    return limits


class Echo:
    """Writes each value to OUTCOMES; a value of b"bad" raises, b"huge" answers with what cannot be written."""

    role, source = "echo", PROMPTS

    def __init__(self) -> None:
        self.delivered: list[bytes | None] = []
        self.undelivered: list[bytes | None] = []
        self.is_upset_by_values = self.is_upset = False

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        if record.value == b"bad":
            raise KeyError("bad")
        value = b"x" * (MAX_BYTES + 1) if record.value == b"huge" else record.value
        return [Outgoing(topic=OUTCOMES, key=record.key, value=value, headers=record.headers)]

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None:
        self.delivered.append(record.value)

    def on_undelivered(self, record: Outgoing) -> None:
        self.undelivered.append(record.value)

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        if self.is_upset or (self.is_upset_by_values and record.value is not None):
            raise RecursionError
        return [Outgoing(topic=DLQ, key=record.key, value=type(error).__name__.encode(), headers=record.headers)]


class LateProducer(MemoryRecordProducer):
    """Acknowledges when asked to, or fails as often as asked."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Future[Delivered], Delivered]] = []
        self.failures = 0

    def send(self, record: Outgoing) -> "Future[Delivered]":
        place, late = super().send(record).result(), Future[Delivered]()
        if self.failures:
            self.failures -= 1
            late.set_exception(DeliveryFailed("away"))
        else:
            self.waiting.append((late, place))
        return late

    def acknowledge(self, index: int) -> None:
        future, place = self.waiting[index]
        future.set_result(place)


def run(logic: Echo, producer: MemoryRecordProducer, events: Sequence[Event], home: pathlib.Path, then=None) -> None:  # type: ignore[no-untyped-def]
    """Serve the events; `then` is an async check while the acknowledging task runs."""

    async def scenario() -> None:
        settings = load({"home": home, "kafka": {"bootstrap_servers": "127.0.0.1:1"}})
        host = AgentHost(settings, logic, producer)
        acknowledging = asyncio.create_task(host._acknowledge())
        await host._serve(Stream(events))  # type: ignore[arg-type]
        if then:
            await then()
        else:
            await until(lambda: all(event.is_acked for event in events))
        acknowledging.cancel()
        await asyncio.gather(acknowledging, return_exceptions=True)

    asyncio.run(scenario())


async def until(condition, limit_s: float = 5) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0)


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_a_record_is_acked_when_all_that_follows_from_it_is_acknowledged(tmp_path: pathlib.Path) -> None:
    logic, producer, event = Echo(), LateProducer(), Event(0, b"a")

    async def then() -> None:
        await settle()
        assert not event.is_acked
        producer.acknowledge(0)
        await until(lambda: event.is_acked)

    run(logic, producer, [event], tmp_path, then)
    assert logic.delivered == [b"a"]


def test_records_are_acked_in_order_whatever_is_acknowledged_first(tmp_path: pathlib.Path) -> None:
    producer, events = LateProducer(), [Event(0, b"a"), Event(1, b"b")]

    async def then() -> None:
        producer.acknowledge(1)
        await settle()
        assert [event.is_acked for event in events] == [False, False]
        producer.acknowledge(0)
        await until(lambda: all(event.is_acked for event in events))

    run(Echo(), producer, events, tmp_path, then)


def test_what_raises_is_answered_and_the_next_is_served(tmp_path: pathlib.Path) -> None:
    producer = MemoryRecordProducer()
    run(Echo(), producer, [Event(0, b"bad"), Event(1, b"good")], tmp_path)
    assert [record.value for record in producer.topics[DLQ]] == [b"KeyError"]
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]


def test_an_answer_that_no_topic_takes_is_an_error_of_its_record(tmp_path: pathlib.Path) -> None:
    producer = MemoryRecordProducer()
    run(Echo(), producer, [Event(0, b"huge"), Event(1, b"good")], tmp_path)
    assert [record.value for record in producer.topics[DLQ]] == [b"RecordTooLarge"]
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]


def test_headers_that_make_every_answer_too_large_are_left_behind(tmp_path: pathlib.Path) -> None:
    producer = MemoryRecordProducer()
    run(Echo(), producer, [Event(0, b"a", {"h": b"x" * MAX_BYTES})], tmp_path)
    (kept,) = producer.topics[DLQ]
    assert (kept.value, kept.headers) == (b"RecordTooLarge", {})


def test_a_refusal_that_raises_is_tried_with_less_of_the_record(tmp_path: pathlib.Path) -> None:
    logic, producer = Echo(), MemoryRecordProducer()
    logic.is_upset_by_values = True
    run(logic, producer, [Event(0, b"bad"), Event(1, b"good")], tmp_path)
    assert [record.key for record in producer.topics[DLQ]] == [b"k"]
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]


def test_a_record_that_nothing_can_answer_does_not_stand_in_the_way(tmp_path: pathlib.Path) -> None:
    logic, producer = Echo(), MemoryRecordProducer()
    logic.is_upset = True
    run(logic, producer, [Event(0, b"bad"), Event(1, b"good")], tmp_path)
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]


def test_a_failed_delivery_is_written_again_before_the_ack(tmp_path: pathlib.Path) -> None:
    producer, event = LateProducer(), Event(0, b"a")
    producer.failures = 2

    async def then() -> None:
        await until(lambda: producer.waiting)
        assert not event.is_acked
        producer.acknowledge(0)
        await until(lambda: event.is_acked)

    run(Echo(), producer, [event], tmp_path, then)
    assert len(producer.topics[OUTCOMES]) == 3


def test_a_record_that_cannot_be_written_ends_the_process_rather_than_be_lost(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []

    def end(status: int) -> None:
        ended.append(status)
        raise SystemError  # the real one does not return either

    monkeypatch.setattr(faust_host.os, "_exit", end)
    producer, event = LateProducer(), Event(0, b"a")
    producer.failures = 99

    async def then() -> None:
        await until(lambda: ended)

    run(Echo(), producer, [event], tmp_path, then)
    assert ended == [70]
    assert not event.is_acked


class Refusing(MemoryRecordProducer):
    """A broker that takes records up to a size, of each topic."""

    def __init__(self, sizes: dict[str, int], refusals: int = 99) -> None:
        super().__init__()
        self._sizes, self.refusals, self.refused = sizes, refusals, 0

    def send(self, record: Outgoing) -> "Future[Delivered]":
        if size_of(record) <= self._sizes.get(record.topic, MAX_BYTES) or self.refused >= self.refusals:
            return super().send(record)
        self.refused += 1
        failed = Future[Delivered]()
        failed.set_exception(RecordTooLarge(f"{record.topic} did not take a record"))
        return failed


def test_a_record_beyond_what_its_topic_takes_is_answered_before_it_is_sent(
    tmp_path: pathlib.Path, limits: TopicLimits
) -> None:
    limits._configured = {OUTCOMES: 400}
    producer = MemoryRecordProducer()
    run(Echo(), producer, [Event(0, b"x" * 400), Event(1, b"good")], tmp_path)
    assert [record.value for record in producer.topics[DLQ]] == [b"RecordTooLarge"]
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]


def test_a_record_that_its_topic_refuses_for_its_size_is_answered_and_the_next_is_served(
    tmp_path: pathlib.Path, limits: TopicLimits
) -> None:
    logic, producer = Echo(), Refusing({OUTCOMES: 300})
    run(logic, producer, [Event(0, b"x" * 400), Event(1, b"x" * 400), Event(2, b"good")], tmp_path)
    assert [record.value for record in producer.topics[DLQ]] == [b"RecordTooLarge"] * 2
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]
    assert logic.undelivered == [b"x" * 400] * 2
    assert limits.of(OUTCOMES) == 400, "what was refused is known, so that the next of its size is not sent"


def test_a_record_that_shared_its_batch_with_too_many_is_sent_again_alone(tmp_path: pathlib.Path) -> None:
    producer = Refusing({OUTCOMES: 0}, refusals=1)
    run(Echo(), producer, [Event(0, b"a")], tmp_path)
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"a"]
    assert DLQ not in producer.topics


def test_a_dead_letter_that_the_dlq_refuses_is_made_shorter_until_it_fits(
    tmp_path: pathlib.Path, limits: TopicLimits
) -> None:
    class Burying(Echo):
        def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
            return [Outgoing(topic=DLQ, key=None, value=b"x" * limits.of(DLQ))]

    producer = Refusing({DLQ: 5000})
    run(Burying(), producer, [Event(0, b"bad"), Event(1, b"good")], tmp_path)
    (letter,) = producer.topics[DLQ]
    assert 2000 < size_of(letter) <= 5000
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]


def test_a_dead_letter_that_no_dlq_takes_does_not_stand_in_the_way(tmp_path: pathlib.Path) -> None:
    producer = Refusing({DLQ: 0}, refusals=10_000)
    run(Echo(), producer, [Event(0, b"bad"), Event(1, b"good")], tmp_path)
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]


def test_a_note_that_is_too_large_ends_nothing(tmp_path: pathlib.Path) -> None:
    class Noting(Echo):
        async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
            return [*await super().on_record(record), Outgoing(topic=EVENTS, key=None, value=b"x" * 100)]

    producer = Refusing({EVENTS: 10})
    run(Noting(), producer, [Event(0, b"a")], tmp_path)
    assert list(producer.topics) == [OUTCOMES]


def test_resends_wait_ever_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    waits = faust_host.RESEND_WAITS_S
    assert waits == tuple(sorted(waits))
    assert (waits[0] >= 0.1, sum(waits) > 10) == (True, True)


def test_what_could_not_be_decoded_is_answered_and_its_bytes_are_kept(tmp_path: pathlib.Path) -> None:
    value = Undecoded(b"as it lay")
    value.error = Undecodable("pochade.prompts.v1/0@0 cannot be decoded")
    seen: list[tuple[bytes | None, Exception]] = []

    class Keeping(Echo):
        def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
            seen.append((record.value, error))
            return []

    producer = MemoryRecordProducer()
    run(Keeping(), producer, [Event(0, value), Event(1, b"good")], tmp_path)
    assert seen == [(b"as it lay", value.error)]
    assert [record.value for record in producer.topics[OUTCOMES]] == [b"good"]


def test_a_topic_that_a_restarted_broker_did_not_know_yet_is_asked_for_again_within_a_second(
    tmp_path: pathlib.Path,
) -> None:
    # found by `pochade chaos --seed 9`: aiokafka's own five minutes long, the classifier had no partition of `prompts`
    host = AgentHost(load({"home": tmp_path, "kafka": {"bootstrap_servers": "localhost:1"}}), Echo(), LateProducer())
    assert host.app.conf.consumer_metadata_max_age_ms <= 1000
    assert (tmp_path / "faust").stat().st_mode & 0o777 == 0o700


def test_times_are_the_brokers_to_the_millisecond(tmp_path: pathlib.Path) -> None:
    seen: list[int] = []

    class Clock(Echo):
        async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
            seen.append(record.timestamp_ms)
            return []

    untimed = Event(1, b"b")
    untimed.message.timestamp = None
    run(Clock(), MemoryRecordProducer(), [Event(0, b"a"), untimed], tmp_path)
    assert seen == [1001, 0]


def test_of_a_flood_of_bad_input_a_line_is_logged_and_of_other_errors_each_with_its_traceback(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Strict(Echo):
        async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
            raise InvalidRecord("no") if record.value == b"sent" else KeyError("ours")

    producer = MemoryRecordProducer()
    values = [b"sent"] * 50 + [b"x"] * 2
    run(Strict(), producer, [Event(offset, value) for offset, value in enumerate(values)], tmp_path)
    assert len(producer.topics[DLQ]) == len(values)
    reported = [(bool(line.exc_info), "InvalidRecord" in line.getMessage()) for line in caplog.records]
    assert reported.count((True, False)) == 2
    assert 1 <= reported.count((False, True)) < 50


class Ahead(Echo):
    """Notes what it is shown before its turn, beside what is served."""

    ahead = 2

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[list[int]] = []

    def look_ahead(self, records: Sequence[Incoming]) -> None:
        self.shown.append([record.offset for record in records])


def test_a_role_that_looks_ahead_sees_what_is_fetched_and_is_served_in_order(tmp_path: pathlib.Path) -> None:
    logic, producer = Ahead(), MemoryRecordProducer()
    events = [Event(n, str(n).encode()) for n in range(4)]
    run(logic, producer, events, tmp_path)
    assert logic.shown == [[0, 1, 2], [1, 2, 3], [2, 3], [3]]
    assert logic.delivered == [b"0", b"1", b"2", b"3"]

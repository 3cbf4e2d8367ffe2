# ruff: noqa: ARG002  the client's own names
"""Two releases side by side: what the newer one writes waits until its schema is known, and is read by it."""

import asyncio
import contextlib
import json
import pathlib
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from http.server import ThreadingHTTPServer
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition
from faust.types import TP

from agents.runtime.following import FollowedPlans
from agents.runtime.records import refused
from planner.serving.ending.outcomes import failed
from schemas.avro import subject_of
from schemas.errors import InvalidRecord, PochadeError, UnknownSchema
from schemas.later import LATER, MAX_AHEAD, Later
from schemas.messages import ClassifiedRequest, GenerateJob, Plan
from schemas.record import Delivered, Incoming, Outgoing
from schemas.registry import Registered, by_id, registered
from schemas.topics import CLASSIFIED, DLQ, FLEET, OUTCOMES, PLAN_KEY, PROMPTS, SCHEMAS
from streams.broker import registry_server
from streams.codec import avro, schema_topic, schema_wait
from streams.codec.avro import awaited_schema, decode, encode, write_up_to
from streams.codec.registry_client import NoSuchSchema, RegistryFailed
from streams.codec.schema_topic import KnownSchemas, announcements, entry_in
from streams.codec.schema_wait import GRACE_EVERY_S, GRACE_S, SEARCH_S, UNKNOWN_S, SchemaWait, WaitingMessages, awaited
from streams.faust import host as faust_host
from streams.faust.host import AgentHost
from streams.kafka.consumers.consumer import TopicTailer
from streams.operator.dead_letters import dead_letter_of, redrive_record
from streams.settings import Registry as RegistrySettings
from streams.settings import load
from tests.agents.stubs import a_record
from tests.builders import a_catalog, a_classified, a_plan, a_request
from tests.malformed import EXAMPLES
from tests.memory_kafka import MemoryRecordProducer
from tests.next_release import entries, written
from tests.patience import PATIENCE_S, Clock
from tests.streams.kafka.scripted import Event, Stream

SETTINGS = load({"kafka": {"bootstrap_servers": "127.0.0.1:1", "properties": {"log_level": "0"}}})


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    """Each test begins as a process that has learnt no schema."""
    forget()
    yield
    forget()


@pytest.fixture(scope="module")
def of_tomorrow() -> bytes:
    """A classified request as the next release writes it."""
    with written():
        return encode(a_classified())


def forget() -> None:
    LATER.forget()
    avro._schemas.cache_clear()
    write_up_to(0)


def learn() -> None:
    for entry in entries():
        LATER.learn(entry)


def test_bytes_of_a_newer_release_are_unknown_and_then_read_by_what_it_tells(of_tomorrow: bytes) -> None:
    with pytest.raises(UnknownSchema, match=f"unknown schema id {awaited_schema(of_tomorrow)}: .* upgrade this role"):
        decode(of_tomorrow, ClassifiedRequest)
    learn()
    assert awaited_schema(of_tomorrow) is None
    assert decode(of_tomorrow, ClassifiedRequest) == a_classified()


def test_a_newer_release_reads_what_this_one_writes() -> None:
    value = encode(a_classified())
    with written():
        assert decode(value, ClassifiedRequest) == a_classified()


def test_what_a_release_tells_is_what_the_one_before_learns() -> None:
    with written():
        records = announcements()
    assert len(records) == len({entry.subject for entry in registered()})
    for record in records:
        entry = entry_in(a_record(topic=SCHEMAS, key=record.key, value=record.value))
        assert LATER.learn(entry)
        assert not LATER.learn(entry), "known already"
    assert [LATER.find(entry.id) for entry in entries()[len(registered()) :]] == list(entries()[len(registered()) :])


@pytest.mark.parametrize(("there", "written_to"), [([], {}), (["pochade.schemas.v1"], {SCHEMAS: 2})])
def test_a_command_tells_nothing_where_nobody_has_made_the_topic_as_it_would_wait_half_a_minute(
    there: list[str], written_to: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_topic, "own_topics", lambda _settings: there)
    producer = MemoryRecordProducer()
    schema_topic.announce(SETTINGS, producer, (ClassifiedRequest, Plan))
    assert {topic: len(records) for topic, records in producer.topics.items()} == written_to


def test_what_this_release_knows_cannot_be_told_anew_and_other_people_s_schemas_change_nothing() -> None:
    entry = registered()[0]
    assert not LATER.learn(Registered(entry.id, entry.subject, 1, {}))
    assert not LATER.learn(Registered(1000, "acme.Order", 1, entry.schema))
    for broken in ({}, {"type": "record", "name": "Plan"}, {"type": "nothing"}, 7):
        assert not LATER.learn(Registered(1000, entry.subject, 1, broken))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, b"", b"[]", b'{"id": 1}', b"{" * 10_000, json.dumps({"id": "x"}).encode()])
def test_bytes_that_tell_no_schema_are_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        entry_in(a_record(topic=SCHEMAS, key=b"1", value=value))


def test_a_schema_under_a_foreign_key_is_refused_as_compaction_would_take_another() -> None:
    (record,) = announcements((Plan,))
    with pytest.raises(InvalidRecord, match="not its id"):
        entry_in(a_record(topic=SCHEMAS, key=b"1", value=record.value))


def test_ids_that_are_wanted_are_bounded_and_leave_when_they_are_published() -> None:
    later = Later()
    for n in range(1000):
        later.find(1_000_000 + n)
    assert later.wanted() == [1_000_900 + n for n in range(100)]
    (entry, *_) = entries()[len(registered()) :]
    later.find(entry.id)
    later.learn(entry)
    assert entry.id not in later.wanted()


class Registry:
    """Has the next release's schemas."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def schema(self, schema_id: int) -> dict[str, Any]:
        self.asked.append(schema_id)
        found = [entry for entry in entries() if entry.id == schema_id]
        if not found:
            raise NoSuchSchema("there is none")
        return found[0].schema

    def close(self) -> None: ...


def test_a_release_that_writes_up_to_the_ids_of_the_one_before_writes_the_same_bytes_as_that() -> None:
    before = {kind: encode(example) for kind, example in EXAMPLES.items()}
    with written():
        write_up_to(highest := len(registered_of_this_release()))
        assert {kind: encode(example) for kind, example in EXAMPLES.items()} == before
        write_up_to(0)
        for kind, example in EXAMPLES.items():
            assert written_id(encode(example)) > highest
            assert decode(encode(example), kind) == example


@pytest.mark.parametrize("highest", range(1, len(registered()) + 1))
def test_no_higher_id_is_written_than_the_setting_says_but_for_messages_that_are_newer(highest: int) -> None:
    write_up_to(highest)
    for kind, example in EXAMPLES.items():
        value = encode(example)
        own = [entry.id for entry in registered() if entry.subject == subject_of(kind)]
        assert written_id(value) == max([each for each in own if each <= highest], default=own[0])
        assert isinstance(decode(value, kind), kind), "every version ever written is read"


def test_an_older_version_leaves_out_what_it_has_no_field_for() -> None:
    job = EXAMPLES[GenerateJob]
    write_up_to(3)  # the job's first version
    read = decode(encode(job), GenerateJob)
    assert read != job
    assert (read.job_id, read.level, read.classified.request.request_id) == (
        job.job_id, job.level, job.classified.request.request_id,
    )  # fmt: skip


def written_id(value: bytes) -> int:
    return int.from_bytes(value[1:5], "big")


def registered_of_this_release() -> tuple[Registered, ...]:
    return entries()[: -len({entry.subject for entry in entries()})]


def test_a_registry_is_asked_for_what_nobody_told(of_tomorrow: bytes) -> None:
    registry, later = Registry(), LATER
    known = KnownSchemas(SETTINGS, later, registry)
    with pytest.raises(UnknownSchema):
        decode(of_tomorrow, ClassifiedRequest)
    LATER.find(9999)
    known.ask_registry()
    assert decode(of_tomorrow, ClassifiedRequest) == a_classified()
    known.ask_registry()
    assert registry.asked.count(9999) == 2, "it may be announced later"
    assert len(registry.asked) == 3
    known.close()


class Served(registry_server.Handler):
    """A registry that has the next release's schemas, under the ids of its file."""

    def do_GET(self) -> None:  # noqa: N802  the base class finds methods by these names
        (found,) = [entry for entry in entries() if self.path.endswith(f"/{entry.id}")]
        self._send(200, {"schemaType": "AVRO", "schema": json.dumps(found.schema)})


def test_the_configured_registry_is_the_one_that_is_asked(of_tomorrow: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        known = KnownSchemas(SETTINGS.model_copy(update={"registry": RegistrySettings(url=url)}))
        assert awaited_schema(of_tomorrow) is not None
        known.ask_registry()
        server.shutdown()
    assert decode(of_tomorrow, ClassifiedRequest) == a_classified()
    known.close()


# ------------------------------------------------------------------ who waits, and for what


def framed(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + b"junk"


def waits(wait: SchemaWait, topic: str, schema_id: int) -> bool:
    return wait.waits(a_record(topic=topic, value=framed(schema_id)))


def test_between_roles_a_record_waits_as_long_as_it_takes_and_says_for_what() -> None:
    wait = SchemaWait("test")
    for _ in range(100):
        assert waits(wait, CLASSIFIED, len(by_id()) + 1)
    reported_why = (
        f"unknown schema id {len(by_id()) + 1} of topic {CLASSIFIED} at 0@7: upgrade this role, or set registry"
    )
    assert wait.why.startswith(reported_why)
    wait.ends(CLASSIFIED, 0)
    assert wait.why == ""


def test_each_partition_that_waits_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    wait = SchemaWait("test")
    for _ in range(5):
        for partition in (0, 1):
            assert wait.waits(a_record(topic=CLASSIFIED, partition=partition, value=framed(len(by_id()) + 1)))
    assert len(caplog.messages) == 2
    assert wait.why.endswith("(and 1 partitions more wait)")


def test_an_id_that_no_release_can_have_waits_for_nothing() -> None:
    wait = SchemaWait("test")
    for schema_id in (2**32 - 1, 0, len(by_id()) + MAX_AHEAD + 1):
        assert not waits(wait, CLASSIFIED, schema_id)
    assert wait.why == ""


def test_on_a_public_topic_a_flood_of_unknown_ids_holds_up_a_small_part_of_the_time() -> None:
    clock = Clock()
    wait, waited_s = SchemaWait("test", clock), 0.0
    for n in range(6000):  # ten minutes
        while waits(wait, PROMPTS, 100 + n % 900):
            clock.now_s += 0.1
            waited_s += 0.1
        clock.now_s += 0.1
    assert waited_s <= (GRACE_S + 0.2) * clock.now_s / GRACE_EVERY_S + GRACE_S
    assert wait.why == "", "nobody needs to be upgraded for somebody's garbage"


def test_on_a_public_topic_every_id_is_asked_for_before_its_record_is_refused() -> None:
    """One that the registry does not know takes a part of the time that is left, not all of it."""
    wait = SchemaWait("test", Clock())
    for n in range(3):
        assert waits(wait, PROMPTS, 500 + n), "nobody has been asked for this one"
        LATER.deny(500 + n)
        looks = sum(waits(wait, PROMPTS, 500 + n) for _ in range(50))
        assert looks < GRACE_S / schema_wait.RETRY_S / 3
    assert waits(wait, PROMPTS, 600)


def test_a_registry_is_asked_at_once_for_an_id_that_is_wanted_anew(of_tomorrow: bytes) -> None:
    registry = Registry()
    known = KnownSchemas(SETTINGS, LATER, registry)
    known._asking.start()
    awaited_schema(of_tomorrow)
    begun_s = time.monotonic()
    while awaited_schema(of_tomorrow) is not None:
        assert time.monotonic() < begun_s + PATIENCE_S
        time.sleep(0.005)
    assert len(registry.asked) == 1
    known.close()


def test_what_a_registry_does_not_know_is_logged_once_however_often_it_is_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    known = KnownSchemas(SETTINGS, LATER, Registry())
    LATER.find(9999)
    for _ in range(5):
        known.ask_registry()
    assert len([line for line in caplog.messages if "schema id 9999 is not known" in line]) == 1
    known.close()


# ------------------------------------------------------------------ until when


class Sources:
    """The topic `schemas` and a registry, either of which may be silent; what they have is what was announced."""

    def __init__(self) -> None:
        self.topic: list[Incoming] | None = []
        self.registry: set[int] | None = set()

    def read(self) -> list[Incoming]:
        if self.topic is None:
            raise PochadeError("the broker does not answer")
        return self.topic

    def schema(self, schema_id: int) -> dict[str, Any]:
        if self.registry is None:
            raise RegistryFailed("no answer")
        if schema_id not in self.registry:
            raise NoSuchSchema("there is none")
        return next(entry for entry in entries() if entry.id == schema_id).schema

    def close(self) -> None: ...


def held_s(known: KnownSchemas, clock: Clock, schema_id: int, limit_s: float = 7200) -> float:
    """How long a record of an id waits, by a process that looks every second."""
    begun_s = clock.now_s
    while awaited(CLASSIFIED, framed(schema_id)) is not None and clock.now_s < begun_s + limit_s:
        known.search(clock.now_s)
        clock.now_s += 1
    return clock.now_s - begun_s


def a_follower(sources: Sources) -> KnownSchemas:
    return KnownSchemas(SETTINGS, LATER, sources, sources.read)


UNKNOWN = len(by_id()) + 500


@pytest.mark.parametrize("silent", ["topic", "registry"])
def test_an_upgrade_that_pauses_for_half_an_hour_sets_nothing_aside_while_one_of_both_cannot_say(silent: str) -> None:
    sources, clock = Sources(), Clock()
    setattr(sources, silent, None)
    known = a_follower(sources)
    assert held_s(known, clock, UNKNOWN, 1800) == 1800
    setattr(sources, silent, type(getattr(Sources(), silent))())
    assert UNKNOWN_S <= held_s(known, clock, UNKNOWN) <= UNKNOWN_S + 2 * SEARCH_S, (
        "the grace begins with the first answer"
    )
    known.close()


def test_an_upgrade_that_pauses_for_half_an_hour_sets_nothing_aside_as_its_schemas_are_announced(
    of_tomorrow: bytes,
) -> None:
    sources, clock = Sources(), Clock()
    with written():
        told = [a_record(topic=SCHEMAS, key=each.key, value=each.value) for each in announcements()]
    known = a_follower(sources)
    assert awaited(CLASSIFIED, of_tomorrow) is not None
    known.search(clock.now_s)
    sources.topic = told
    clock.now_s += SEARCH_S
    known.search(clock.now_s)
    assert decode(of_tomorrow, ClassifiedRequest) == a_classified()
    clock.now_s += 1800
    assert held_s(known, clock, written_id(of_tomorrow)) == 0
    assert not LATER.waiting(), "nothing is looked for any more, whether the upgrade goes on or is rolled back"
    known.close()


def test_a_silence_in_between_stops_the_grace_and_does_not_begin_it_anew() -> None:
    sources, clock = Sources(), Clock()
    known = a_follower(sources)
    assert held_s(known, clock, UNKNOWN, 500) == 500
    sources.registry = None
    assert held_s(known, clock, UNKNOWN, 3000) == 3000
    sources.registry = set()
    assert held_s(known, clock, UNKNOWN) <= 100 + 4 * SEARCH_S
    known.close()


def test_without_a_registry_the_topic_decides() -> None:
    sources, clock = Sources(), Clock()
    known = a_follower(sources)
    known._registry = None
    assert UNKNOWN_S <= held_s(known, clock, UNKNOWN) <= UNKNOWN_S + 2 * SEARCH_S
    known.close()


def test_a_flood_of_unknown_ids_one_after_the_other_holds_a_partition_for_one_grace() -> None:
    sources, clock = Sources(), Clock()
    known = a_follower(sources)
    waited_s = [held_s(known, clock, len(by_id()) + n) for n in range(1, MAX_AHEAD)]
    assert waited_s[0] <= UNKNOWN_S + 2 * SEARCH_S
    assert max(waited_s[1:]) == 1, "one look each"
    assert held_s(known, clock, len(by_id()) + 1) == 0, "a given up id is not waited for again"
    known.close()


def test_ids_behind_one_that_waits_are_looked_for_with_it() -> None:
    sources, clock = Sources(), Clock()
    known = a_follower(sources)
    held = WaitingMessages(Consumer(), "pochade", SchemaWait("test"))  # type: ignore[arg-type]
    flood = [a_message(0, n, framed(len(by_id()) + 1 + n)) for n in range(50)]
    held.readable(flood)
    assert len(LATER.waiting()) == 50
    held_s(known, clock, len(by_id()) + 1)
    assert len(held.readable([])) == 50
    known.close()


def test_an_id_that_was_given_up_is_read_once_its_schema_comes(of_tomorrow: bytes) -> None:
    assert awaited(CLASSIFIED, of_tomorrow) is not None
    LATER.give_up(LATER.waiting())
    assert awaited(CLASSIFIED, of_tomorrow) is None
    learn()
    assert decode(of_tomorrow, ClassifiedRequest) == a_classified()


def test_a_record_that_is_set_aside_leaves_its_request_open_and_is_redriven_to_where_it_lay(of_tomorrow: bytes) -> None:
    record = a_record(topic=CLASSIFIED, key=b"r-1", value=of_tomorrow)
    error = UnknownSchema(written_id(of_tomorrow), len(by_id()))
    outcome = failed("r-1", reason="it cannot be read", by="router", now_ms=1)
    (letter,) = refused(record, outcome, error, 1)
    assert (letter.topic, letter.headers["pochade_error_code"]) == (DLQ, b"unread")
    back = redrive_record(
        dead_letter_of(a_record(topic=DLQ, key=letter.key, value=letter.value, headers=letter.headers)), {}
    )
    assert (back.topic, back.key, back.value) == (CLASSIFIED, b"r-1", of_tomorrow)


def test_garbage_on_a_public_topic_is_answered_all_the_same(of_tomorrow: bytes) -> None:
    record = a_record(topic=PROMPTS, key=b"r-1", value=of_tomorrow)
    outcome = failed("r-1", reason="it cannot be read", by="classifier", now_ms=1)
    written_records = refused(record, outcome, UnknownSchema(written_id(of_tomorrow), len(by_id())), 1)
    assert [each.topic for each in written_records] == [OUTCOMES, DLQ]
    assert "pochade_error_code" not in written_records[1].headers


# ------------------------------------------------------------------ the Faust roles


class Reader:
    """Answers a classified request with its id."""

    role, source = "reader", CLASSIFIED

    async def on_record(self, record: Incoming) -> Sequence[Outgoing]:
        classified = decode(record.value, ClassifiedRequest)
        return [Outgoing(topic=OUTCOMES, key=classified.request.request_id.encode(), value=b"")]

    def on_delivered(self, record: Outgoing, delivered: Delivered) -> None: ...

    def on_error(self, record: Incoming, error: Exception) -> Sequence[Outgoing]:
        return [Outgoing(topic=OUTCOMES, key=b"FAILED", value=b"")]


def an_event(topic: str, offset: int, value: bytes) -> Event:
    event = Event(offset, value)
    event.message.topic = f"pochade.{topic}"
    return event


class PausedConsumer:
    """The partitions that the host has paused."""

    def __init__(self) -> None:
        self.paused: set[int] = set()

    def hold(self, tp: TP) -> None:
        self.paused.add(tp.partition)

    def release(self, tp: TP, *, is_ours: bool) -> None:
        self.paused.discard(tp.partition)


@contextlib.asynccontextmanager
async def hosted(home: pathlib.Path, producer: MemoryRecordProducer) -> AsyncIterator[tuple[AgentHost, PausedConsumer]]:
    host, consumer = AgentHost(SETTINGS.model_copy(update={"home": home}), Reader(), producer), PausedConsumer()
    host.app.consumer = consumer
    tasks = [asyncio.create_task(each) for each in (host._acknowledge(), host._serve_delayed())]
    yield host, consumer
    for task in tasks:
        task.cancel()


async def until_acked(events: Sequence[Event]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not all(event.is_acked for event in events):
            await asyncio.sleep(0)


def test_a_role_waits_for_the_schema_with_the_records_behind_and_then_serves_them_in_order(
    of_tomorrow: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faust_host, "RETRY_S", 0.001)
    producer = MemoryRecordProducer()
    old = encode(a_classified(a_request(request_id="r-2")))
    events = [an_event(CLASSIFIED, 0, of_tomorrow), an_event(CLASSIFIED, 1, old)]

    async def scenario() -> None:
        async with hosted(tmp_path, producer) as (host, consumer):
            await host._serve(Stream(events))  # type: ignore[arg-type]
            await asyncio.sleep(0.01)
            assert "unknown schema id" in host.not_ready()
            assert not producer.topics, "neither FAILED nor on the dlq"
            assert not any(event.is_acked for event in events), "the position is kept"
            assert consumer.paused == {0}, "what lies behind it is not fetched either"
            learn()
            await until_acked(events)
            assert (host.not_ready(), consumer.paused) == ("", set())

    asyncio.run(scenario())
    assert [record.key for record in producer.topics[OUTCOMES]] == [b"r-1", b"r-2"]


def test_a_record_of_an_unknown_schema_holds_up_its_own_partition_only(
    of_tomorrow: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faust_host, "RETRY_S", 0.001)
    producer = MemoryRecordProducer()
    old = [encode(a_classified(a_request(request_id=f"r-{n}"))) for n in range(4)]
    events = [an_event(CLASSIFIED, 0, of_tomorrow), an_event(CLASSIFIED, 1, old[0])]
    others = [an_event(CLASSIFIED, n, value) for n, value in enumerate(old[1:])]
    for event in others:
        event.message.partition = 1

    async def scenario() -> None:
        async with hosted(tmp_path, producer) as (host, consumer):
            await host._serve(Stream([*events, *others]))  # type: ignore[arg-type]
            await until_acked(others)
            assert (consumer.paused, [event.is_acked for event in events]) == ({0}, [False, False])

    asyncio.run(scenario())
    assert [record.key for record in producer.topics[OUTCOMES]] == [b"r-1", b"r-2", b"r-3"]


def test_a_record_that_is_given_up_is_refused_and_those_behind_it_are_served(
    of_tomorrow: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faust_host, "RETRY_S", 0.001)
    producer = MemoryRecordProducer()
    events = [an_event(CLASSIFIED, 0, of_tomorrow), an_event(CLASSIFIED, 1, encode(a_classified()))]

    async def scenario() -> None:
        async with hosted(tmp_path, producer) as (host, _):
            await host._serve(Stream(events))  # type: ignore[arg-type]
            LATER.give_up(LATER.waiting())
            await until_acked(events)

    asyncio.run(scenario())
    assert [record.key for record in producer.topics[OUTCOMES]] == [b"FAILED", b"r-1"]


def test_a_record_that_waits_while_partitions_move_goes_to_its_topic_s_end_and_holds_up_nobody(
    of_tomorrow: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those behind it, which this member can read, are served before the partition moves."""
    monkeypatch.setattr(faust_host, "RETRY_S", 0.001)
    producer, event = MemoryRecordProducer(), Event(0, of_tomorrow, {"x-own": b"travels"}, key=b"r-1")
    event.message.topic = f"pochade.{CLASSIFIED}"
    behind = an_event(CLASSIFIED, 1, encode(a_classified(a_request(request_id="r-2"))))

    async def scenario() -> None:
        async with hosted(tmp_path, producer) as (host, _):
            await host._serve(Stream([event, behind]))  # type: ignore[arg-type]
            assert not producer.topics
            host.app.rebalancing = True
            await until_acked([event, behind])

    asyncio.run(scenario())
    sent = Outgoing(topic=CLASSIFIED, key=b"r-1", value=of_tomorrow, headers={"x-own": b"travels"})
    assert producer.topics.pop(CLASSIFIED) == [sent]
    assert [record.key for record in producer.topics[OUTCOMES]] == [b"r-2"]


def test_a_record_on_prompts_that_waits_while_partitions_move_stays_where_it_is(
    of_tomorrow: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its position may be its request's id, and a role may not write there."""
    monkeypatch.setattr(schema_wait, "GRACE_S", 2 * schema_wait.RETRY_S)  # two looks
    monkeypatch.setattr(faust_host, "RETRY_S", 0.001)
    producer, event = MemoryRecordProducer(), an_event(PROMPTS, 0, of_tomorrow)

    async def scenario() -> None:
        async with hosted(tmp_path, producer) as (host, _):
            host.app.rebalancing = True
            await host._serve(Stream([event]))  # type: ignore[arg-type]
            await until_acked([event])

    asyncio.run(scenario())
    assert PROMPTS not in producer.topics
    assert [record.key for record in producer.topics[OUTCOMES]] == [b"FAILED"]


def test_an_unknown_id_on_prompts_is_refused_and_the_next_is_served(
    of_tomorrow: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_wait, "GRACE_S", 0.0)
    monkeypatch.setattr(faust_host, "RETRY_S", 0.001)
    producer = MemoryRecordProducer()
    events = [an_event(PROMPTS, 0, of_tomorrow), an_event(PROMPTS, 1, encode(a_classified()))]

    async def scenario() -> None:
        host = AgentHost(SETTINGS.model_copy(update={"home": tmp_path}), Reader(), producer)
        await host._serve(Stream(events))  # type: ignore[arg-type]

    asyncio.run(scenario())
    assert [record.key for record in producer.topics[OUTCOMES]] == [b"FAILED", b"r-1"]


# ------------------------------------------------------------------ consumers of our own: worker, ledger, sweeper


def a_message(partition: int, offset: int, value: bytes) -> Message:
    return Message(topic=f"pochade.{CLASSIFIED}", partition=partition, offset=offset, value=value)


class Consumer:
    def __init__(self) -> None:
        self.paused: set[int] = set()

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {each.partition for each in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {each.partition for each in partitions}


def read_by(held: WaitingMessages, *messages: Message) -> list[tuple[int, int]]:
    return [(message.partition(), message.offset()) for message in held.readable(messages)]


def test_a_partition_waits_as_a_whole_and_the_others_are_served(of_tomorrow: bytes) -> None:
    consumer, wait, old = Consumer(), SchemaWait("test"), encode(a_classified())
    held = WaitingMessages(consumer, "pochade", wait)  # type: ignore[arg-type]
    polled = [a_message(0, 0, old), a_message(0, 1, of_tomorrow), a_message(1, 0, old), a_message(0, 2, old)]
    assert read_by(held, *polled) == [(0, 0), (1, 0)]
    assert consumer.paused == {0}
    assert f"of topic {CLASSIFIED} at 0@1" in wait.why
    assert read_by(held, a_message(1, 1, old)) == [(1, 1)]
    learn()
    assert read_by(held) == [(0, 1), (0, 2)]
    assert (consumer.paused, wait.why) == (set(), "")


def test_what_waits_in_a_partition_that_is_taken_away_is_its_new_owner_s(of_tomorrow: bytes) -> None:
    consumer, wait = Consumer(), SchemaWait("test")
    held = WaitingMessages(consumer, "pochade", wait)  # type: ignore[arg-type]
    assert read_by(held, a_message(0, 1, of_tomorrow), a_message(1, 1, of_tomorrow)) == []
    held.lose([TopicPartition(f"pochade.{CLASSIFIED}", 0)])
    assert consumer.paused == {1}
    learn()
    assert read_by(held) == [(1, 1)]


# ------------------------------------------------------------------ followers


def test_a_follower_sets_aside_what_it_cannot_read_and_takes_the_newest_of_each_key_in_later(
    of_tomorrow: bytes,
) -> None:
    read: list[tuple[bytes | None, int]] = []

    def on_record(record: Incoming) -> None:
        decode(record.value, ClassifiedRequest)
        read.append((record.key, record.offset))

    follower = TopicTailer(SETTINGS, [FLEET], on_record)
    old = encode(a_classified())
    for offset, (key, value) in enumerate(
        [(b"a", of_tomorrow), (b"a", of_tomorrow), (b"b", of_tomorrow), (b"b", old), (b"c", old)]
    ):
        follower._take_in(a_record(topic=FLEET, key=key, offset=offset, value=value))
    follower._retry_set_aside()
    assert read == [(b"b", 3), (b"c", 4)]
    learn()
    follower._retry_set_aside()
    follower._retry_set_aside()
    assert read == [(b"b", 3), (b"c", 4), (b"a", 1)]
    follower.close()


def test_a_role_says_that_it_cannot_read_the_plan_and_obeys_it_once_it_can() -> None:
    with written():
        value = encode(a_plan(version=3))
    view = FollowedPlans(SETTINGS, "test", a_catalog())
    view._follower._take_in(a_record(topic="plan.v1", key=PLAN_KEY.encode(), offset=9, value=value))
    assert "cannot read the record at 9 of the control topic: unknown schema id" in view.not_ready()
    learn()
    view._follower._retry_set_aside()
    assert (view.plan, view.not_ready()) == (a_plan(version=3), "")
    view.close()

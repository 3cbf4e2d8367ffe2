"""Feeds a role good records among such as nobody should write, and reports what became of each."""

import asyncio
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from schemas.errors import InvalidRecord
from schemas.messages import ClassifiedRequest, GenerateRequest
from schemas.record import Incoming, Outgoing
from schemas.topics import DLQ, EVENTS, OUTCOMES
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.codec.headers import ERROR
from streams.faust.host import AgentHost, StreamLogic
from streams.kafka.producers.writing import MAX_BYTES, size_of
from streams.settings import load
from tests.agents.stubs import a_record
from tests.awaiting import awaited
from tests.malformed import senseless
from tests.memory_kafka import MemoryRecordProducer
from tests.patience import PATIENCE_S
from tests.streams.kafka.scripted import Event, Stream

HEADERS = st.dictionaries(
    st.sampled_from(("traceparent", "ce_id", "pochade_deadline_ms", "pochade_error_offset", "é" * 50, "x")),
    st.none()
    | st.binary(max_size=40)
    | st.sampled_from((b"00-" + b"a" * 32 + b"-b-\xff", b"9" * 5000, b"x" * 600_000)),
    max_size=2,
)
KEYS = st.none() | st.binary(max_size=20) | st.sampled_from((b"", b"k" * 300_000))


class Fed(NamedTuple):
    """One record for a role."""

    kind: str  # good | spoilt | senseless
    value: bytes | None
    key: bytes | None
    headers: dict[str, bytes | None]


def served(logic: StreamLogic, home: pathlib.Path, fed: Sequence[Fed]) -> dict[int, list[Outgoing]]:
    """offset -> what the host wrote for it; all of it is acked in the end."""
    answers: dict[int, list[Outgoing]] = {}

    async def scenario() -> None:
        settings = load({"home": home, "kafka": {"bootstrap_servers": "127.0.0.1:1"}})
        host = AgentHost(settings, logic, MemoryRecordProducer())
        decide = host._decide

        async def spied(record: Incoming) -> Sequence[Outgoing]:
            answers[record.offset] = list(await decide(record))
            return answers[record.offset]

        host._decide = spied  # type: ignore[method-assign]
        acknowledging = asyncio.create_task(host._acknowledge())
        events = [
            Event(offset, each.value, list(each.headers.items()), key=each.key, timestamp_s=now_ms() / 1000)
            for offset, each in enumerate(fed)
        ]
        await asyncio.wait_for(host._serve(Stream(events)), PATIENCE_S)  # type: ignore[arg-type]
        async with asyncio.timeout(PATIENCE_S):
            while not all(event.is_acked for event in events):
                await asyncio.sleep(0)
        acknowledging.cancel()
        await asyncio.gather(acknowledging, return_exceptions=True)

    awaited(scenario())
    return answers


def feed(
    good: Callable[[str], Any], bad: st.SearchStrategy[bytes | None], example: Any
) -> st.SearchStrategy[list[Fed]]:
    """Good records among bad ones; those of one kind alone show what became of them."""
    fine = st.just(None).map(lambda _none: Fed("good", None, None, {}))
    spoilt_ones = st.builds(Fed, st.just("spoilt"), bad, KEYS, HEADERS)
    named = st.just(good("odd")) | st.just(example)
    odd = st.builds(Fed, st.just("senseless"), named.flatmap(senseless).map(encode), KEYS | st.just(b"odd"), HEADERS)
    mixed = st.lists(st.one_of(fine, spoilt_ones, odd), min_size=1, max_size=12)

    def numbered(feds: list[Fed]) -> list[Fed]:
        return [
            Fed("good", encode(good(f"good-{n}")), f"good-{n}".encode(), {}) if fed.kind == "good" else fed
            for n, fed in enumerate([*feds, Fed("good", None, None, {})])
        ]

    return mixed.map(numbered)


def is_message(value: bytes | None, kind: type[Any]) -> bool:
    """Whether these bytes can be decoded."""
    try:
        decode(value, kind)
    except InvalidRecord:
        return False
    return True


def as_records(fed: Sequence[Fed], topic: str = "in.v1") -> list[Incoming]:
    """As a client of confluent-kafka hands them over."""
    return [
        a_record(
            topic=topic, value=each.value, key=each.key, offset=offset, timestamp_ms=now_ms(),
            headers={name: value or b"" for name, value in each.headers.items()},
        )
        for offset, each in enumerate(fed)
    ]  # fmt: skip


def is_accounted_for(fed: Sequence[Fed], answers: dict[int, list[Outgoing]], kind: type[Any], to: str) -> None:
    """Each good one went on, each unreadable one is kept, and every other is answered at all, once a request."""
    sent = set[bytes | None]()
    for offset, each in enumerate(fed):
        written = answers[offset]
        if not written and kind is ClassifiedRequest and is_message(each.value, kind):
            assert decode(each.value, ClassifiedRequest).request.request_id.encode() in sent, "a job that nobody has"
            continue
        sent |= {record.key for record in written if record.topic == to}
        topics = [record.topic for record in written if record.topic != EVENTS]
        letters = [record for record in written if record.topic == DLQ]
        assert all(size_of(record) <= MAX_BYTES for record in written)
        assert topics, f"nothing became of {each!r:.200}"
        if each.kind == "good":
            assert topics == [to], written
        elif not is_message(each.value, kind):  # of prompts, which may be JSON, more can be read
            assert len(letters) == 1 or kind is GenerateRequest, f"not kept: {each!r:.200}"
        assert all(letter.headers[ERROR + "offset"] == str(offset).encode() for letter in letters)
        assert not letters or OUTCOMES in topics or len(each.key or b"") > 1000, "kept, and its request never ends"

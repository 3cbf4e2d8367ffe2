"""What `watch` shows, and when it has seen enough."""

import json

import pytest

from schemas.messages import Event, Status
from schemas.record import Incoming
from schemas.topics import EVENTS
from streams.codec.avro import encode, encode_result
from streams.operator.watch import Watch, note_of
from tests.builders import NOW_MS
from tests.replay.runs import a_result, a_step
from tests.streams.operator.test_client import record


def an_event(request_id: str = "r-1", detail: str = "{}") -> Incoming:
    value = encode(Event(request_id=request_id, kind="escalated", at_ms=NOW_MS, by="discriminator", detail=detail))
    return Incoming(topic=EVENTS, partition=0, offset=0, timestamp_ms=NOW_MS, key=request_id.encode(), value=value)


def test_an_event_becomes_a_note_with_its_detail_as_words() -> None:
    note = note_of(an_event(detail=json.dumps({"level": "light", "confidence": 0.3, "nothing": None})))
    assert (note.kind, note.by, note.words()) == ("escalated", "discriminator", "level=light confidence=0.3")


@pytest.mark.parametrize("detail", ["not json", "[1]"])
def test_a_detail_that_is_no_object_is_shown_as_it_is(detail: str) -> None:
    assert note_of(an_event(detail=detail)).words().startswith("detail=")


@pytest.mark.parametrize("format", ["avro", "json"])
def test_a_result_of_either_format_is_the_end(format: str) -> None:
    result = a_result(a_step(), request_id="r-1", status=Status.COMPLETED)
    note = note_of(record(result, value=encode_result(result, format)))
    assert (note.kind, note.detail["status"], note.detail["level"]) == ("ended", "COMPLETED", "light")


def test_watching_ends_when_all_that_were_named_have_ended() -> None:
    watch = Watch(["r-1", "r-2"])
    assert watch.take(an_event("r-1")) is not None
    assert watch.take(record(a_result(request_id="r-3"))) is None
    assert not watch.is_finished
    assert watch.take(record(a_result(request_id="r-1"))) is not None
    assert watch.waits_for == ["r-2"]
    watch.take(record(a_result(request_id="r-2")))
    assert watch.is_finished


def test_watching_everybody_never_ends_and_counts_what_it_cannot_read() -> None:
    watch = Watch([])
    assert watch.take(record(a_result(request_id="r-3"))) is not None
    assert watch.take(record(a_result(request_id="r-4"), value=b"junk")) is None
    assert (watch.is_finished, watch.unreadable) == (False, 1)

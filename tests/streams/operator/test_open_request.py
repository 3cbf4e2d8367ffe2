"""What a request without a result waits for, from the records of its way, heartbeats and queues."""

import dataclasses
import json
from typing import Any

import pytest

from schemas.messages import Event, EventKind, GenerateOptions, Heartbeat
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, EVENTS, FLEET
from streams.kafka.consumers import snapshot
from streams.operator import doctor, open_request
from streams.operator.checks import Attendance
from streams.operator.open_request import waits_for
from streams.settings import load
from tests.agents.stubs import a_record
from tests.builders import NOW_MS, a_classified, a_heartbeat, a_request

AGE_S = 5


def lying(message: Any, topic: str, key: str = "r-1", age_s: int = AGE_S) -> Incoming:
    record = a_record(message, key=key.encode())
    return dataclasses.replace(record, topic=topic, timestamp_ms=NOW_MS - 1000 * age_s)


def classified(**asked: Any) -> Incoming:
    return lying(a_classified(a_request(request_id="r-1", options=GenerateOptions(**asked))), CLASSIFIED, age_s=30)


def event(kind: EventKind, **detail: Any) -> Incoming:
    return lying(Event(request_id="r-1", kind=kind, at_ms=NOW_MS, by="worker", detail=json.dumps(detail)), EVENTS)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ask what r-1 waits for, with these records on topics; 12 wait in each queue, the oldest for 41 s."""

    def ask(*records: Incoming, beats: tuple[Heartbeat, ...] = (), whole: bool = False) -> str:
        lie = [*records, *(lying(beat, FLEET, beat.worker_id, age_s=0) for beat in beats)]

        def past(_settings: Any, topics: list[str], keep: Any = lambda _record: True, **_: Any) -> list[Incoming]:
            return [record for record in lie if record.topic in topics and keep(record)]

        monkeypatch.setattr(snapshot, "past", past)
        monkeypatch.setattr(open_request, "now_ms", lambda: NOW_MS)
        monkeypatch.setattr(doctor, "attendance", lambda *_, **__: Attendance(0, 12, 41.0))
        words = waits_for(load({"catalog": "chaos"}), "r-1", 1)
        return words if whole else words.partition("; it asks for ")[0]

    return ask


LIGHT = a_heartbeat(worker_id="w-1", variant="light", state="painting")


def test_a_request_that_names_a_level_without_a_worker_says_so_as_doctor_does(asked: Any) -> None:
    words = "12 wait for heavy, which no worker serves; oldest 41 s"
    assert asked(classified(model="heavy"), beats=(LIGHT,)) == words
    assert asked(classified(), event(EventKind.ESCALATED, to="heavy"), beats=(LIGHT,)) == words
    loading = a_heartbeat(worker_id="w-2", variant="heavy", state="loading")
    assert asked(classified(model="heavy"), beats=(LIGHT, loading)) == words, "one that loads does not serve yet"
    serves = dataclasses.replace(loading, state="ready")
    assert asked(classified(model="heavy"), beats=(serves,)) == "12 wait for heavy; oldest 41 s"


def test_a_request_that_a_worker_has_begun_names_the_worker_while_it_lives(asked: Any) -> None:
    begun = event(EventKind.STARTED, level="light", worker="w-1")
    assert asked(classified(), begun, beats=(LIGHT,)) == "w-1 began it on light 5 s ago"
    assert asked(classified(), begun) == "its worker w-1 has not reported; no worker serves light; it waits"


def test_a_request_whose_worker_fell_silent_says_when_it_is_generated_again(asked: Any) -> None:
    begun = event(EventKind.STARTED, level="light", worker="w-1")
    silent, other = lying(LIGHT, FLEET, "w-1", age_s=4), dataclasses.replace(LIGHT, worker_id="w-2")
    silence = "its worker w-1 has not reported for 4 s"
    assert asked(begun, silent, beats=(other,)) == f"{silence}; it is generated again when the lease ends in 2 s"
    assert asked(begun, silent) == f"{silence}; no worker serves light; it waits"


def test_a_request_that_any_level_serves_waits_for_a_worker(asked: Any) -> None:
    preview = event(EventKind.PREVIEW, step=3)
    assert asked(classified(), preview, beats=(LIGHT,)) == "it was classified 30 s ago, and no worker has begun it"
    assert asked(classified(), preview) == "it was classified 30 s ago, and no worker is ready to serve"


def test_an_open_request_says_what_was_asked_of_it(asked: Any) -> None:
    request = a_request(request_id="r-1", options=GenerateOptions(model="heavy", steps=9), seed=7, tier="interactive")
    request = dataclasses.replace(request, deadline_ms=request.created_ms + 5000)
    lies = lying(a_classified(request), CLASSIFIED)
    words = "quality auto, tier interactive, seed 7, deadline 5000 ms after it was made, steps 9, model heavy"
    assert asked(lies, whole=True) == f"12 wait for heavy, which no worker serves; oldest 41 s; it asks for {words}"
    begun = event(EventKind.STARTED, level="heavy", worker="w-1")
    assert asked(lies, begun, beats=(LIGHT,), whole=True) == f"w-1 began it on heavy 5 s ago; it asks for {words}"


def test_records_of_other_requests_and_unreadable_ones_say_nothing(asked: Any) -> None:
    broken = dataclasses.replace(classified(), value=b"\x00")
    other = dataclasses.replace(classified(model="heavy"), key=b"r-2")
    assert asked(broken, other, beats=(LIGHT,)) == ""

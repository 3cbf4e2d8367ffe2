"""Dead letters: the facts that they hold, and how they are redriven."""

import dataclasses
import json
from concurrent.futures import Future

import pytest

from schemas.errors import PochadeError
from schemas.messages import GenerateRequest
from schemas.record import Delivered, Incoming
from schemas.topics import CLASSIFIED, DLQ, OUTCOMES, POISON, PROMPTS, WEBHOOKS, jobs_topic, waiting_topic
from streams.codec.avro import decode, encode
from streams.codec.headers import REQUEST_ID, dead_letter
from streams.codec.request_ids import request_id_of
from streams.operator.dead_letters import (
    ENDED_WORKERS,
    REDRIVEN,
    DeadLetter,
    NothingToDo,
    NotRedrivable,
    base_id,
    dead_letter_of,
    redrive_record,
    redriven,
)
from tests.builders import NOW_MS, a_classified, a_job, a_request, an_outcome
from tests.memory_kafka import MemoryRecordProducer

PROMPT = b'{"prompt": "x"}'


def a_dead_letter(
    value: bytes | None, topic: str = PROMPTS, request_id: str = "r-1", key: bytes | None = None, **headers: bytes
) -> DeadLetter:
    read = Incoming(
        topic=topic, partition=2, offset=7, timestamp_ms=NOW_MS, key=key or request_id.encode(), value=value,
        headers=headers,
    )  # fmt: skip
    sent = dead_letter(read, error=ValueError("broken"), role="classifier", request_id=request_id)
    return dead_letter_of(
        Incoming(
            topic=DLQ, partition=0, offset=3, timestamp_ms=NOW_MS, key=sent.key, value=sent.value, headers=sent.headers
        )
    )


def test_a_dead_letter_tells_what_went_wrong_where() -> None:
    letter = a_dead_letter(PROMPT)
    assert (letter.position, letter.error, letter.message) == ("0@3", "ValueError", "broken")
    assert (letter.role, letter.topic, letter.partition, letter.offset) == ("classifier", PROMPTS, "2", "7")
    assert (letter.request_id, letter.redriven) == ("r-1", 0)


def test_a_request_that_has_not_ended_goes_back_as_it_was() -> None:
    letter = a_dead_letter(b"\x00raw\xff", topic=OUTCOMES, mine=b"kept")
    record = redrive_record(letter, {})
    assert (record.topic, record.key, record.value) == (OUTCOMES, b"r-1", b"\x00raw\xff")
    assert record.headers == {"mine": b"kept", REDRIVEN: b"1"}


def test_a_webhook_goes_back_as_it_was_though_its_request_has_ended() -> None:
    record = redrive_record(a_dead_letter(b"where to", topic=WEBHOOKS), {"r-1": "COMPLETED"})
    assert (record.topic, record.key, record.value) == (WEBHOOKS, b"r-1", b"where to")


@pytest.mark.parametrize(("error", "is_unmarked"), [(ENDED_WORKERS, True), ("ValueError", False)])
def test_redriving_a_request_that_ended_its_workers_takes_its_mark_away_first(error: str, is_unmarked: bool) -> None:
    letter = dataclasses.replace(a_dead_letter(encode(a_request())), error=error)
    producer = MemoryRecordProducer()
    (row,) = redriven([letter], {"r-1": "FAILED"}, producer.send, rate=1000)
    sent = [record for records in producer.topics.values() for record in records]
    assert row["sent"]
    marks, prompts = (sent[:1], sent[1:]) if is_unmarked else ([], sent)
    assert [(each.topic, each.key, each.value) for each in marks] == [(POISON, b"r-1", None)] * is_unmarked
    assert [(each.topic, each.key) for each in prompts] == [(PROMPTS, b"r-1-redrive-1")]


def test_a_record_that_the_broker_does_not_take_in_time_ends_a_redrive_as_an_error_of_ours() -> None:
    class Silent(Future[Delivered]):
        def result(self, timeout: float | None = None) -> Delivered:
            return super().result(timeout and 0)

    with pytest.raises(PochadeError, match=r"prompts\.v1 did not take a record within 60 s"):
        list(redriven([a_dead_letter(PROMPT)], {}, lambda _: Silent(), rate=1000))


@pytest.mark.parametrize(
    ("error", "topic", "is_clients"),
    [
        ("InvalidRequest", PROMPTS, True),
        ("InvalidRequest", "classified.v1", True),
        ("InvalidRecord", PROMPTS, True),
        ("InvalidRecord", "classified.v1", False),
        ("UnknownSchema", PROMPTS, False),
        ("ValueError", PROMPTS, False),
    ],
)
def test_what_a_client_sent_wrongly_is_told_apart(error: str, topic: str, *, is_clients: bool) -> None:
    assert dataclasses.replace(a_dead_letter(b"x", topic), error=error).is_clients == is_clients


def test_redrives_are_counted() -> None:
    assert redrive_record(a_dead_letter(PROMPT, **{REDRIVEN: b"4"}), {}).headers[REDRIVEN] == b"5"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"prompt": "x", "request_id": "r-1"}', {"prompt": "x", "request_id": "r-1-redrive-1"}),
        (b'{"prompt": "x"}', {"prompt": "x"}),
    ],
)
def test_a_json_prompt_of_an_ended_request_gets_a_new_id(value: bytes, expected: dict[str, str]) -> None:
    record = redrive_record(a_dead_letter(value), {"r-1": "FAILED"})
    assert record.key == b"r-1-redrive-1"
    assert json.loads(record.value or b"") == expected


def test_an_avro_prompt_of_an_ended_request_gets_a_new_id_and_keeps_everything_else() -> None:
    asked = a_request(seed=7, deadline_ms=NOW_MS + 5)
    record = redrive_record(a_dead_letter(encode(asked)), {"r-1": "FAILED"})
    assert decode(record.value, GenerateRequest) == dataclasses.replace(asked, request_id="r-1-redrive-1")


@pytest.mark.parametrize("value", [b'{"prompt": ', b"\x00\x00\x00\x00\x01\xff", b"", None, b"[1]"])
@pytest.mark.parametrize("ended", [{}, {"r-1": "FAILED"}])
def test_a_prompt_that_cannot_be_read_is_not_sent_to_fail_again(value: bytes | None, ended: dict[str, str]) -> None:
    with pytest.raises(NotRedrivable, match="its bytes are no request, and would fail again"):
        redrive_record(a_dead_letter(value), ended)


def test_a_prompt_whose_schema_only_the_roles_may_know_is_sent_as_it_was_under_the_new_id() -> None:
    value = b"\x00\x00\x00\x13\x88of tomorrow"
    record = redrive_record(a_dead_letter(value), {"r-1": "FAILED"})
    assert (record.key, record.value, record.headers[REQUEST_ID]) == (b"r-1-redrive-1", value, b"r-1-redrive-1")


@pytest.mark.parametrize("ended", [{}, {"place": "FAILED"}])
def test_a_prompt_without_an_id_is_redriven_under_the_one_that_its_first_position_gave_it(
    ended: dict[str, str],
) -> None:
    letter = a_dead_letter(b'{"prompt": "x"}', request_id="place", key=b"user-42")
    record = redrive_record(letter, ended)
    there = Incoming(
        topic=PROMPTS, partition=0, offset=99, timestamp_ms=NOW_MS + 9, key=record.key, value=record.value,
        headers=record.headers,
    )  # fmt: skip
    assert (letter.record.key, record.topic) == (b"user-42", PROMPTS)
    assert request_id_of(there) == ("place-redrive-1" if ended else "place")


def test_a_prompt_that_can_be_read_by_now_is_redriven_as_the_request_that_it_names() -> None:
    letter = a_dead_letter(encode(a_request(request_id="mine")), request_id="place", key=b"user-42")
    record = redrive_record(letter, {"place": "FAILED"})
    assert (letter.request_id, decode(record.value, GenerateRequest).request_id) == ("mine", "mine")


def test_a_job_of_an_ended_request_begins_again_at_prompts() -> None:
    classified = a_classified(a_request(seed=9))
    for topic, value in (
        (jobs_topic("light", 1).name, encode(a_job(classified))),
        (waiting_topic("light").name, encode(a_job(classified))),
        (CLASSIFIED, encode(classified)),
        (OUTCOMES, encode(an_outcome(request=classified.request))),
    ):
        record = redrive_record(a_dead_letter(value, topic), {"r-1": "FAILED"})
        assert record.topic == PROMPTS
        assert decode(record.value, GenerateRequest) == a_request(seed=9, request_id="r-1-redrive-1")


def test_the_number_is_the_first_that_has_not_ended() -> None:
    ended = {"r-1": "FAILED", "r-1-redrive-1": "FAILED", "r-1-redrive-2": "EXPIRED"}
    assert redrive_record(a_dead_letter(PROMPT), ended).key == b"r-1-redrive-3"
    assert redrive_record(a_dead_letter(PROMPT, request_id="r-1-redrive-2"), ended).key == b"r-1-redrive-3"
    assert base_id("r-1-redrive-2") == "r-1"


def test_nothing_is_sent_once_a_redrive_has_completed() -> None:
    with pytest.raises(NothingToDo, match="r-1-redrive-1 has completed"):
        redrive_record(a_dead_letter(PROMPT), {"r-1": "FAILED", "r-1-redrive-1": "COMPLETED"})


def test_what_cannot_be_tried_again_says_why() -> None:
    with pytest.raises(NotRedrivable, match="only the beginning of its value was kept"):
        redrive_record(a_dead_letter(PROMPT, pochade_error_cut_from_bytes=b"999"), {})
    with pytest.raises(NotRedrivable, match="no header pochade_error_topic"):
        redrive_record(
            dead_letter_of(Incoming(topic=DLQ, partition=0, offset=1, timestamp_ms=1, key=b"k", value=b"v")), {}
        )
    with pytest.raises(NotRedrivable, match="submit the prompt again"):
        redrive_record(a_dead_letter(encode(an_outcome()), OUTCOMES), {"r-1": "FAILED"})
    with pytest.raises(NotRedrivable, match="submit the prompt again"):
        redrive_record(a_dead_letter(encode(a_request()), CLASSIFIED), {"r-1": "FAILED"})


@pytest.mark.parametrize("count", [b"9" * 5000, b"", b"-1", b"x", "²".encode()])
def test_a_count_that_is_none_counts_as_no_redrive(count: bytes) -> None:
    assert a_dead_letter(PROMPT, **{REDRIVEN: count}).redriven == 0

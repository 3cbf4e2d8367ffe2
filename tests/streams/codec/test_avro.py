"""The codec: what we wrote can be read, and what we did not write is refused in words."""

import dataclasses
import gzip
import json
import struct
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import InvalidRecord, InvalidRequest
from schemas.ids import request_id_of_record
from schemas.messages import Event, GenerateOptions, GenerateRequest, Outcome, Plan, Stage, Status
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, PROMPTS
from streams.codec.avro import decode, encode, from_values
from streams.codec.request_ids import request_id_of
from streams.codec.requests import decode_request
from tests.builders import an_outcome

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


ID_OF_PLACE = request_id_of_record(PROMPTS, 1, 5, 123)


def a_record(value: bytes | None, key: bytes | None = None) -> Incoming:
    return Incoming(topic=PROMPTS, partition=1, offset=5, timestamp_ms=123, key=key, value=value)


@given(
    request=st.builds(
        GenerateRequest,
        request_id=texts,
        prompt=texts,
        created_ms=st.integers(0, 2**62),
        deadline_ms=st.none() | st.integers(0, 2**62),
        seed=st.none() | st.integers(0, 2**62),
        tenant=texts,
    )
)
def test_any_request_survives_the_wire(request: GenerateRequest) -> None:
    assert decode(encode(request), GenerateRequest) == request


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_and_never_crash(data: bytes) -> None:
    with pytest.raises((InvalidRecord, InvalidRequest)):
        decode_request(a_record(b"\x00" + data if data[:1] != b"{" else b"?" + data))


def test_an_unknown_schema_id_is_named_with_the_known_ones() -> None:
    with pytest.raises(InvalidRecord, match=r"unknown schema id 4711: known are 1 to"):
        decode(struct.pack(">BI", 0, 4711) + b"x", GenerateRequest)


def test_another_messages_bytes_are_refused_by_name() -> None:
    event = Event(request_id="r", kind="k", at_ms=1, by="b")
    with pytest.raises(InvalidRecord, match=r"is pochade\.Event, expected pochade\.Plan"):
        decode(encode(event), Plan)


def test_bytes_left_over_after_the_record_are_refused() -> None:
    with pytest.raises(InvalidRecord, match="3 bytes left over"):
        decode(encode(Event(request_id="r", kind="k", at_ms=1, by="b")) + b"abc", Event)


def test_foreign_avro_under_a_known_id_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="do not follow schema 1"):
        decode(struct.pack(">BI", 0, 1) + b"\xff" * 8, GenerateRequest)


def test_a_status_of_another_release_is_refused_with_the_known_ones() -> None:
    data = encode(dataclasses.replace(an_outcome(), status=cast(Status, "PAUSED")))
    with pytest.raises(InvalidRecord, match=r"status: Input should be 'COMPLETED', 'REJECTED'"):
        decode(data, Outcome)


def test_values_become_a_message_or_are_refused_by_the_name_of_the_field() -> None:
    values = {"stage": 0, "level": "light", "worker_id": "w", "plan_version": 3, "queue_ms": 4, "paint_ms": 20,
              "batch": 1, "attempt": 1, "overridden": ["seed"]}  # fmt: skip
    assert from_values(Stage, values).overridden == ("seed",)
    with pytest.raises(ValueError, match="plan_version: Field required"):
        from_values(Stage, {name: value for name, value in values.items() if name != "plan_version"})


def test_a_plain_json_line_with_a_prompt_is_a_request() -> None:
    request = decode_request(a_record(b'{"prompt": "a red heart"}'))
    assert request.prompt == "a red heart"
    assert request.created_ms == 123
    assert request.request_id == request_id_of(a_record(b'{"prompt": "a red heart"}'))


def test_an_empty_id_is_as_good_as_none() -> None:
    request = GenerateRequest(request_id="", prompt="x", created_ms=1)
    for value in (encode(request), b'{"prompt": "x", "request_id": ""}'):
        record = a_record(value, key=b"order-7")
        assert decode_request(record).request_id == request_id_of(record) == ID_OF_PLACE


def test_options_stand_beside_the_other_keys_in_json() -> None:
    line = b'{"prompt": "x", "quality": "high", "n": 2, "guidance": 3, "adapters": ["ink"], "strict": true}'
    request = decode_request(a_record(line))
    assert request.quality == "high"
    assert request.options == GenerateOptions(n=2, guidance=3, adapters=("ink",), strict=True)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (b'{"schema": null, "payload": {"prompt": "x"}}', "value.converter.schemas.enable=false"),
        (gzip.compress(b'{"prompt": "x"}', mtime=0), "send the value unpacked"),
    ],
)
def test_what_other_programs_wrap_around_a_request_is_named(value: bytes, advice: str) -> None:
    with pytest.raises((InvalidRecord, InvalidRequest), match=advice):
        decode_request(a_record(value))


def test_a_key_that_stands_twice_is_refused_by_name_whichever_value_was_meant() -> None:
    with pytest.raises(InvalidRequest, match="the key 'seed' stands twice in one JSON object: give it once") as refusal:
        decode_request(a_record(b'{"prompt": "x", "seed": 1, "seed": 2}'))
    assert refusal.value.field == "seed"


def test_prompts_under_one_key_that_state_no_id_are_requests_of_their_own() -> None:
    asked = [dataclasses.replace(a_record(b'{"prompt": "x"}', key=b"user-42"), offset=n) for n in range(5)]
    ids = {decode_request(record).request_id for record in asked}
    assert (len(ids), "user-42" in ids) == (5, False)
    assert decode_request(a_record(b'{"prompt": "x", "request_id": "mine"}', key=b"order-7")).request_id == "mine"


STATED = {"pochade_request_id": b"stated"}  # by a role that wrote the record again, or by whoever may write there


@pytest.mark.parametrize(
    ("value", "headers", "expected"),
    [
        (b'{"prompt": "x"}', STATED, "stated"),
        (encode(GenerateRequest(request_id="", prompt="x", created_ms=1)), STATED, "stated"),
        (b'{"prompt": "x", "request_id": "mine"}', STATED, "mine"),
        (b'{"prompt": "x"}', {"pochade_request_id": b"\xff"}, ID_OF_PLACE),
        (b'{"prompt": "x"}', {"pochade_request_id": b""}, ID_OF_PLACE),
    ],
)
def test_an_id_in_a_header_goes_before_the_position_and_behind_that_of_the_value(
    value: bytes, headers: dict[str, bytes], expected: str
) -> None:
    record = dataclasses.replace(a_record(value, key=b"user-42"), headers=headers)
    assert decode_request(record).request_id == request_id_of(record) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, '"prompt" is missing'),
        ({"prompt": 7}, "'prompt' must be a string: got 7"),
        ({"prompt": "x", "sede": 1}, "did you mean 'seed'"),
        ({"prompt": "x", "priority": 1}, "'priority' must be a string: got 1"),
        ({"prompt": "x", "num_images": 1}, "did you mean 'n'"),
        ({"prompt": "x", "size": "64"}, "size must be WIDTHxHEIGHT in px"),
        ({"prompt": "x", "style": "vivid"}, "the prompt says the style"),
        ({"prompt": "x", "aspect_ratio": "1:1"}, "did you mean 'size'?"),
        ({"prompt": "x", "seed": True}, "'seed' must be an integer"),
        ({"prompt": "\ud800"}, "'prompt' must be valid Unicode"),
        ({"prompt": "x", "deadline_ms": "soon"}, "'deadline_ms' must be an integer or null"),
        ({"prompt": "x", "adapters": "ink"}, "'adapters' must be a list of strings"),
        ({"prompt": "x", "strict": 1}, "'strict' must be true or false"),
        ({"prompt": "x", "guidance": "high"}, "'guidance' must be a number or null"),
    ],
)
def test_wrong_json_fields_are_refused_in_words(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        decode_request(a_record(json.dumps(fields).encode()))


@pytest.mark.parametrize("value", [None, b"", b"{", b"[1]", b"plain text", b"\xff\xfe"])
def test_what_is_neither_avro_nor_a_json_object_is_unreadable(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        decode_request(a_record(value))


@pytest.mark.parametrize("value", [None, b"", b"{broken", b"[1]", b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x13\x88x"])
def test_what_cannot_be_read_on_prompts_is_its_position_whatever_key_and_headers_say(value: bytes | None) -> None:
    assert request_id_of(dataclasses.replace(a_record(value, key=b"order-7"), headers=STATED)) == ID_OF_PLACE


def test_records_between_roles_are_of_the_request_that_their_key_names() -> None:
    record = dataclasses.replace(a_record(b"{broken", key=b"order-7"), topic=CLASSIFIED, headers=STATED)
    assert request_id_of(record) == "order-7"
    assert request_id_of(dataclasses.replace(record, key=None)) == request_id_of_record(CLASSIFIED, 1, 5, 123)


def test_a_record_without_a_value_is_called_a_tombstone() -> None:
    with pytest.raises(InvalidRecord, match=r"no value \(a tombstone\).* goes on; `pochade cancel ID`.* ends one"):
        decode_request(a_record(None))
    with pytest.raises(InvalidRecord, match=r"no value \(a tombstone\)"):
        decode(None, GenerateRequest)


def test_a_framed_request_names_itself_whatever_its_key() -> None:
    request = GenerateRequest(request_id="mine", prompt="x", created_ms=1)
    assert request_id_of(a_record(encode(request), key=b"order-7")) == "mine"
    assert request_id_of(a_record(encode(request))) == "mine"


@pytest.mark.parametrize("name", ["seed", "deadline_ms", "created_ms", "n", "width"])
def test_an_integer_that_avro_cannot_hold_is_refused_in_words(name: str) -> None:
    for value in (2**63, -(2**63) - 1, 10**400):
        with pytest.raises(InvalidRequest, match=f"'{name}' must fit into 64 bits"):
            decode_request(a_record(json.dumps({"prompt": "x", name: value}).encode()))

"""Whatever lies on a topic or stands in a settings file is read, or is an error of ours that says what is wrong."""

import json
import os
import pathlib
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.errors import InvalidRecord, InvalidRequest, PochadeError
from schemas.messages import GenerateRequest, Pin, Plan, Result, Stage
from schemas.record import Incoming, Outgoing
from schemas.topics import PIN_KEY, PLAN_KEY, PROMPTS
from streams.codec.avro import decode, decode_result, encode, encode_result
from streams.codec.headers import ERROR
from streams.codec.request_ids import request_id_of
from streams.codec.requests import HINTS, decode_request
from streams.control.records import take_in
from streams.operator.dead_letters import NothingToDo, NotRedrivable, dead_letter_of, redrive_record
from streams.operator.explain import steps_of, why
from streams.settings import Settings, load
from tests.malformed import DEEP, EXAMPLES, INTEGERS, JSON, TEXTS, fuzz, reported, senseless, spoilt

KINDS = sorted(EXAMPLES, key=lambda kind: kind.__name__)


def a_record(value: bytes | None, key: bytes | None = b"r-1", headers: dict[str, bytes] | None = None) -> Incoming:
    return Incoming(
        topic=PROMPTS, partition=0, offset=7, timestamp_ms=5, key=key, value=value, headers=headers or {}
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@fuzz(60)
@given(st.data())
def test_any_bytes_are_a_message_or_an_invalid_record(kind: type[Any], data: st.DataObject) -> None:
    value = data.draw(spoilt(EXAMPLES[kind]))
    found = reported(lambda: decode(value, kind))
    assert isinstance(found, (kind, InvalidRecord))
    assert len(str(found)) < 5000 or not isinstance(found, InvalidRecord), "an error's message travels in headers"


@pytest.mark.parametrize("kind", KINDS)
@fuzz(25)
@given(st.data())
def test_a_senseless_message_survives_the_wire(kind: type[Any], data: st.DataObject) -> None:
    message = data.draw(senseless(EXAMPLES[kind]))
    assert repr(decode(encode(message), kind)) == repr(message)  # a NaN is not equal to itself


FIELDS = st.dictionaries(st.sampled_from([*sorted(HINTS), "promt"]), JSON | st.just(2**63), max_size=4)


@example(
    {"guidance": 7, "adapters": ["candy"], "adapter_weights": [1]}, None
)  # whole numbers, of fields that have none
@fuzz(100)
@given(FIELDS, st.none() | st.binary(max_size=8))
def test_any_json_is_a_request_that_can_be_written_or_an_error_of_ours(
    fields: dict[str, Any], key: bytes | None
) -> None:
    record = a_record(json.dumps({"prompt": "a red heart", **fields}).encode(), key)
    assert request_id_of(record).encode()
    found = reported(lambda: decode_request(record))
    assert isinstance(found, (GenerateRequest, InvalidRecord, InvalidRequest))
    if isinstance(found, GenerateRequest):
        assert repr(decode(encode(found), GenerateRequest)) == repr(found)
    else:
        assert str(found).encode(), "it travels in headers"


@fuzz(80)
@given(spoilt(EXAMPLES[GenerateRequest]), st.none() | st.binary(max_size=8))
def test_any_record_of_prompts_has_an_id(value: bytes | None, key: bytes | None) -> None:
    record = a_record(value, key)
    try:
        assert decode_request(record).request_id == request_id_of(record)
    except (InvalidRecord, InvalidRequest):
        assert request_id_of(record).encode()


RESULT = EXAMPLES[Result]


@fuzz(100)
@given(st.dictionaries(st.sampled_from(list(Result.__dataclass_fields__)), JSON, min_size=1, max_size=3))
def test_any_json_result_is_one_of_the_right_types_or_an_invalid_record(fields: dict[str, Any]) -> None:
    value = json.dumps(json.loads(encode_result(RESULT, "json")) | fields).encode()
    try:
        result = decode_result(value)
    except InvalidRecord:
        return
    assert encode(result)


STEP = json.loads('{"stage": 0, "level": "light", "worker_id": "w", "plan_version": 3, "queue_ms": 4, "paint_ms": 20, '
                  '"batch": 1, "attempt": 1}')  # fmt: skip
PATHS = st.one_of(
    st.sampled_from(("", "{}", "[1]", "[{}]", "null", DEEP)),
    st.dictionaries(st.sampled_from(list(Stage.__dataclass_fields__)), JSON, min_size=1, max_size=3).map(
        lambda fields: json.dumps([STEP | fields])
    ),
)


@fuzz(100)
@given(PATHS)
def test_any_path_of_a_result_is_steps_of_the_right_types_or_an_invalid_record(path: str) -> None:
    result = decode(encode(EXAMPLES[Result]), Result)
    result = Result(
        **{name: getattr(result, name) for name in Result.__dataclass_fields__ if name != "path"}, path=path
    )
    try:
        steps = steps_of(result)
    except InvalidRecord:
        return
    for step in steps:
        assert isinstance(step.confidence, (float, int, type(None)))
        assert isinstance(step.level, str)
    assert why(result)


HEADERS = st.dictionaries(
    st.sampled_from([ERROR + name for name in ("class", "topic", "request_id", "partition")] + ["pochade_redriven"]),
    st.binary(max_size=8) | st.sampled_from((b"9" * 5000, b"prompts.v1", b"images.v1", b"jobs.x.v1", b"r-1")),
    max_size=4,
)


@fuzz(100)
@given(spoilt(EXAMPLES[GenerateRequest]), HEADERS, st.booleans())
def test_any_dead_letter_can_be_told_and_sent_again_or_refused(
    value: bytes | None, headers: dict[str, bytes], has_ended: bool
) -> None:
    letter = dead_letter_of(a_record(value, headers=headers))
    found = reported(lambda: redrive_record(letter, {letter.request_id: "FAILED"} if has_ended else {}))
    assert isinstance(found, (Outgoing, NotRedrivable, NothingToDo))


@fuzz(60)
@given(
    st.sampled_from((PLAN_KEY, PIN_KEY, "other")), st.sampled_from((Plan, Pin)).flatmap(lambda k: spoilt(EXAMPLES[k]))
)
def test_any_record_of_the_control_topic_is_handed_over_or_refused(key: str, value: bytes | None) -> None:
    said: list[Any] = []
    try:
        take_in(a_record(value, key.encode()), said.append, said.append)
    except InvalidRecord:
        assert not said
    else:
        assert all(isinstance(each, (Plan, Pin, type(None))) for each in said)


def loaded(folder: pathlib.Path, text: bytes, environment: dict[str, str]) -> Settings | PochadeError:
    (folder / "pochade.toml").write_bytes(text)
    with mock.patch.dict(os.environ, {"POCHADE_CONFIG": str(folder / "pochade.toml"), **environment}):
        try:
            return load({})
        except PochadeError as error:
            return error


NAMES = ["kafka.prefix", "kafka.properties", "worker.threads", "tenants", "tenants.a.weight", "planner.parameters",
         "shutdown_timeout_s", "home", "catalog", "ledger.deadline_grace_s", "admission.max_backlog_s",
         "nothing.here"]  # fmt: skip
TOML_VALUES = st.sampled_from(("1", "-1", "nan", "inf", "1e400", "2026-01-01", "true", "''", "'x'", "[]", "{}", "{a=1}",
                               "{a={}}", "[[1]]", "9" * 5000, "[" * 5000, '"\\u0000"'))  # fmt: skip


@fuzz(60)
@given(st.lists(st.tuples(st.sampled_from(NAMES), TOML_VALUES), max_size=3))
def test_any_value_in_a_settings_file_is_taken_or_an_error_of_ours(
    tmp_path: pathlib.Path, lines: list[tuple[str, str]]
) -> None:
    text = "\n".join(f"{name} = {value}" for name, value in lines)
    assert isinstance(loaded(tmp_path, text.encode(), {}), (Settings, PochadeError))


@fuzz(60)
@given(st.binary(max_size=60))
def test_any_bytes_are_settings_or_an_error_of_ours(tmp_path: pathlib.Path, text: bytes) -> None:
    assert isinstance(loaded(tmp_path, text, {}), (Settings, PochadeError))


@fuzz(60)
@given(
    st.sampled_from(
        ["POCHADE_TENANTS", "POCHADE_KAFKA", "POCHADE_WORKER__THREADS", "POCHADE_DRAIN_S", "POCHADE_LOGS__X__Y"]
    ),
    (TEXTS | INTEGERS.map(str) | TOML_VALUES).filter(lambda text: "\0" not in text),
)
def test_any_variable_is_taken_or_an_error_of_ours(tmp_path: pathlib.Path, name: str, value: str) -> None:
    assert isinstance(loaded(tmp_path, b"", {name: value}), (Settings, PochadeError))

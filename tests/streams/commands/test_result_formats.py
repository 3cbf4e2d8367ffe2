"""`results.format`: either format is read by every reader of ours."""

import json

import pytest

from schemas.errors import InvalidRecord, PochadeError, Unknown
from schemas.messages import Status
from streams.codec.avro import decode_result, encode_result, write_up_to
from streams.settings import load
from tests.replay.runs import a_result, a_step


@pytest.mark.parametrize("format", ["avro", "json"])
@pytest.mark.parametrize("status", list(Status))
def test_what_was_written_is_read(format: str, status: Status) -> None:
    result = a_result(a_step(), prompt='a "Würfel" 立方', status=status, reason="why")
    assert decode_result(encode_result(result, format)) == result


def test_json_is_one_object_with_its_path_as_a_list_and_documented_names() -> None:
    fields = json.loads(encode_result(a_result(a_step(), request_id="r-1"), "json"))
    assert (fields["request_id"], fields["status"]) == ("r-1", "COMPLETED")
    assert fields["generate_ms"] == fields["paint_ms"] == 20
    assert [(each["level"], each["generate_ms"], each["paint_ms"]) for each in fields["path"]] == [("light", 20, 20)]


def test_a_list_of_no_stages_is_read_as_empty_stages_and_breaks_no_reader() -> None:
    fields = json.loads(encode_result(a_result(), "json")) | {"path": [1]}
    assert decode_result(json.dumps(fields).encode()).path == "[{}]"


def test_readers_of_an_older_release_get_the_path_as_the_text_that_they_read() -> None:
    write_up_to(1)
    try:
        fields = json.loads(encode_result(a_result(a_step()), "json"))
    finally:
        write_up_to(0)
    assert json.loads(fields["path"])[0]["level"] == "light"
    assert "generate_ms" not in fields
    assert decode_result(json.dumps(fields).encode()) == a_result(a_step())


def test_fields_of_later_versions_are_ignored_and_those_with_defaults_may_be_missing() -> None:
    fields = json.loads(encode_result(a_result(), "json")) | {"of_tomorrow": 1}
    del fields["path"]
    assert decode_result(json.dumps(fields).encode()) == a_result()


@pytest.mark.parametrize("value", [None, b"", b"junk", b"[1]", b'{"request_id": "x"}', b'{"prompt": "x"}'])
def test_what_is_no_result_is_refused(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        decode_result(value)


def test_an_unknown_status_is_refused_not_guessed() -> None:
    fields = json.loads(encode_result(a_result(), "json")) | {"status": "MAYBE"}
    with pytest.raises(InvalidRecord, match="MAYBE"):
        decode_result(json.dumps(fields).encode())


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(Unknown, match="avro, json"):
        encode_result(a_result(), "xml")
    with pytest.raises(PochadeError, match=r"results\.format"):
        load({"results": {"format": "xml"}})


@pytest.mark.parametrize(("name", "value"), [("ended_ms", "soon"), ("ended_ms", 2**63), ("hardness", "x"), ("path", 1)])
def test_json_with_a_value_of_another_type_is_no_result(name: str, value: object) -> None:
    fields = json.loads(encode_result(a_result(), "json")) | {name: value}
    with pytest.raises(InvalidRecord, match="JSON is no result"):
        decode_result(json.dumps(fields).encode())

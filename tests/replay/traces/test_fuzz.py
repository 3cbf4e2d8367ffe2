"""Any bytes are a trace or an error of ours, for every reader, strict and lenient."""

import gzip
import json
import pathlib
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.load.prompts import read_prompts
from replay.simulation.failures import read_failures
from replay.traces import Asked, read
from replay.traces.topic import trace_of
from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import PROMPTS

T = TypeVar("T")
FUZZ = settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
HEADERS = {
    "nothing": "",
    "arrivals": "arrival_ms",
    "arrivals with more": "arrival_ms,prompt,prompt_index,model,adapters,steps,n,tier,slack_ms,hardness",
    "hourly counts": ",hour,invocations",
    "counts a second": "second,count",
}
TEXTS = (
    *("", "0", "1", "1", "2", "3.5", "-1", "nan", "inf", "1e400", "1e30", "1_0", "٣", '"', '"0"', '"a,b"', "x\r"),
    *("2024-11-15 16:57:50", "0001-01-01", "9999-12-31T23:59:59-23:59", "[{'modelVersionId': 'a', 'scale': 1.0}]"),
    *("[]", "[{}]", "{1:2}", "[[", "9" * 5000, "\x00", "\u2028", "interactive"),
)
VALUES = st.sampled_from(TEXTS) | st.text(max_size=5)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
NAMES = (
    *("arrival_ms", "at", "at_ms", "at_s", "timestamp", "created_ms", "deadline_ms", "slack_ms", "prompt", "hardness"),
    *("prompt_index", "seed", "request_id", "tier", "n", "steps", "model", "adapters", "promt", "width", "quality"),
)
KEYS = st.sampled_from(NAMES)
ASKED = st.builds(
    Asked,
    is_lenient=st.booleans(),
    sorts=st.booleans(),
    models=st.sampled_from([None, frozenset({"light"})]),
    scale=st.sampled_from([1.0, 0.3, 2.5]),
    loop=st.sampled_from([1, 2]),
    limit=st.sampled_from([None, 2]),
    prompts=st.sampled_from([(), ("a cat", "a dog")]),
)


def outcome(call: Callable[[], T]) -> T | str:
    """Return what it gives, or the text of the error of ours that it raises."""
    try:
        return call()
    except PochadeError as error:
        return str(error)


def is_trace_or_told(path: pathlib.Path, data: bytes, asked: Asked) -> None:
    path.write_bytes(data)
    found = outcome(lambda: read(path, asked))
    if isinstance(found, str):
        assert str(path) in found or "--" in found
    else:
        assert len(found) > 0
        assert all(row.arrival_ms >= 0 for row in found.rows())


@FUZZ
@given(st.sampled_from(sorted(HEADERS)), st.binary(max_size=200), ASKED)
def test_any_bytes_below_any_header(tmp_path: pathlib.Path, header: str, data: bytes, asked: Asked) -> None:
    is_trace_or_told(tmp_path / "given", HEADERS[header].encode() + b"\n" + data, asked)


@FUZZ
@given(st.sampled_from(sorted(HEADERS)), st.lists(st.lists(VALUES, min_size=1, max_size=11), max_size=6), ASKED)
def test_any_values_in_rows_of_the_right_width(
    tmp_path: pathlib.Path, header: str, rows: list[list[str]], asked: Asked
) -> None:
    columns = HEADERS[header].split(",")
    lines = [",".join((row * len(columns))[: len(columns)]) for row in rows]
    data = "\n".join([HEADERS[header], *lines]).encode(errors="surrogatepass")
    is_trace_or_told(tmp_path / "given", data, asked)


@FUZZ
@given(st.lists(st.dictionaries(KEYS, JSON_VALUES, max_size=5), min_size=1, max_size=5), ASKED)
def test_any_fields_in_json_lines(tmp_path: pathlib.Path, requests: list[dict[str, object]], asked: Asked) -> None:
    data = "\n".join(json.dumps(request) for request in requests).encode()
    is_trace_or_told(tmp_path / "given", data, asked)


@FUZZ
@given(st.binary(min_size=1, max_size=60), st.integers(0, 60), st.booleans())
def test_a_packed_file_that_is_cut_or_spoilt(tmp_path: pathlib.Path, junk: bytes, at: int, is_lenient: bool) -> None:
    packed = gzip.compress(b"arrival_ms\n0\n1\n2\n")
    is_trace_or_told(tmp_path / "given", packed[:at] + junk, Asked(is_lenient=is_lenient))


@FUZZ
@given(st.lists(st.binary(max_size=80) | st.just(b'{"prompt": "a"}') | st.just(b'{"prompt": "a", "seed": -1}')))
def test_any_records_on_the_topic(values: list[bytes]) -> None:
    records = [
        Incoming(topic=PROMPTS, partition=0, offset=n, timestamp_ms=n, key=None, value=value)
        for n, value in enumerate(values)
    ]
    found = outcome(lambda: trace_of(records, "p", 0, len(records), Asked()))
    if isinstance(found, str):
        assert "has no requests" in found
    else:
        assert len(found) + sum(found.skipped.values()) == len(records)


@FUZZ
@given(st.binary(max_size=80))
def test_any_prompt_files(tmp_path: pathlib.Path, data: bytes) -> None:
    path = tmp_path / "given"
    path.write_bytes(data)
    found = outcome(lambda: read_prompts(path))
    assert not isinstance(found, str) or str(path) in found


@FUZZ
@given(st.lists(st.tuples(VALUES, VALUES, st.sampled_from(["up", "down", ""])), max_size=4), st.binary(max_size=20))
def test_any_schedules_of_failures(tmp_path: pathlib.Path, rows: list[tuple[str, str, str]], junk: bytes) -> None:
    path = tmp_path / "given"
    text = "\n".join(["at_s,worker,change", *map(",".join, rows), ""])
    path.write_bytes(text.encode(errors="surrogatepass") + junk)
    found = outcome(lambda: read_failures(path, ["w-0", "w-1"]))
    assert not isinstance(found, str) or str(path) in found


@pytest.mark.parametrize("name", ["", "\x00", "a/b", "x" * 5000])
def test_a_name_that_is_no_file_is_reported(tmp_path: pathlib.Path, name: str) -> None:
    with pytest.raises(PochadeError):
        read(tmp_path / name)

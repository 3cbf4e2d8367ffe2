"""What is written is read again as it was."""

import gzip
import pathlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.traces import read
from replay.traces.formats.columns import Columns
from replay.traces.trace import MAX_SPAN_MS, Overrides, Row, of_arrivals
from replay.traces.writing import write
from schemas.errors import PochadeError
from schemas.messages import GenerateOptions
from tests.replay.traces.files import jsonl, read_in


def test_arrivals_alone_are_a_csv_to_the_last_digit(tmp_path: pathlib.Path) -> None:
    trace = of_arrivals([0.1, 1 / 3, 1e9 + 0.125], "t", "t")
    write(trace, tmp_path / "new" / "out.csv")
    assert (tmp_path / "new" / "out.csv").read_text().startswith("arrival_ms\n0.1\n0.333")
    assert read(tmp_path / "new" / "out.csv").arrival_ms == pytest.approx(trace.arrival_ms, rel=1e-14)


def test_requests_are_json_lines_with_everything_that_was_asked_for(tmp_path: pathlib.Path) -> None:
    asks = [
        {
            "arrival_ms": 0,
            "prompt": "ein schöner\u2028Baum",
            "slack_ms": 5,
            "seed": 3,
            "request_id": "r",
            "hardness": 0.5,
        },
        {"arrival_ms": 1.5, "prompt": "a cat", "tier": "batch", "tenant": "t", "quality": "low", "n": 2, "steps": 9},
        {"arrival_ms": 2, "model": "heavy", "adapters": ["ink", "pen"], "guidance": 2.5, "strict": True},
        {"arrival_ms": 3},
    ]
    trace = read_in(tmp_path, jsonl(*asks))
    write(trace, tmp_path / "out.jsonl")
    assert list(read(tmp_path / "out.jsonl").rows()) == list(trace.rows())


def test_gz_packs_and_the_same_trace_makes_the_same_bytes(tmp_path: pathlib.Path) -> None:
    trace = of_arrivals([0.0, 1.0], "t", "t")
    for name in ("a.csv.gz", "b.csv.gz"):
        write(trace, tmp_path / name)
    packed = (tmp_path / "a.csv.gz").read_bytes()
    assert gzip.decompress(packed) == b"arrival_ms\n0\n1\n"
    assert packed == (tmp_path / "b.csv.gz").read_bytes()


def test_where_it_cannot_be_written_is_reported(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PochadeError, match="choose another --out"):
        write(of_arrivals([0.0], "t", "t"), tmp_path / "file" / "out.csv")


OPTIONS = st.builds(GenerateOptions, n=st.integers(1, 9), model=st.sampled_from(["", "heavy"]))
ROWS = st.builds(
    Row,
    arrival_ms=st.floats(0, MAX_SPAN_MS),
    prompt=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    wish=st.builds(Overrides, tier=st.sampled_from(["standard", "batch"]), options=OPTIONS),
    slack_ms=st.none() | st.floats(-1e9, 1e9),
    seed=st.none() | st.integers(0, 2**63 - 1),
    hardness=st.none() | st.floats(0, 1),
    prompt_index=st.none(),
    request_id=st.just(""),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, min_size=1, max_size=6), st.booleans())
def test_any_trace_is_read_again_as_it_was(tmp_path: pathlib.Path, rows: list[Row], is_packed: bool) -> None:
    columns = Columns()
    for row in rows:
        columns.append(row)
    trace = columns.trace("t", "t", 0.0, {})
    path = tmp_path / ("out.gz" if is_packed else "out")
    write(trace, path)
    again = read(path)
    reported, wanted = ([r._replace(arrival_ms=0, prompt_index=None) for r in each.rows()] for each in (again, trace))
    assert reported == wanted
    assert again.arrival_ms == pytest.approx(trace.arrival_ms, rel=1e-14, abs=1e-300)

"""Arrival CSVs: whatever the packing, with a clear word for what is wrong."""

import gzip
import pathlib

import numpy as np
import pytest

from replay.traces import Asked, InvalidTrace, read, read_trace
from replay.traces.formats import building, quick
from replay.traces.trace import MAX_SPAN_MS
from schemas.errors import PochadeError
from tests.replay.traces.files import DATA, LENIENT, a_file, arrivals, read_in

TRACES = DATA / "traces"
WRITTEN = {
    "CRLF": b"arrival_ms\r\n0\r\n12.5\r\n12.5\r\n\r\n1e3\r\n",
    "quoted": b'\n"arrival_ms"\n"0"\n12.5\n"12.5"\n1000',
    "blanks": b" Arrival_MS \n0\n 12.5\n12.5 \n1000\n",
}


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["bare", "byte order mark"])
@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN)
def test_a_trace_is_read_whatever_its_packing_and_its_line_ends(
    tmp_path: pathlib.Path, is_packed: bool, mark: bytes, content: bytes
) -> None:
    assert read_trace(a_file(tmp_path, mark + content, is_packed=is_packed)) == [0, 12.5, 12.5, 1000]


WRONG: list[tuple[str | bytes, str, str]] = [
    ("arrival_ms\n0\n1,2\n", r"given:3: expected 1 fields", "wrong fields"),
    ("arrival_ms\n0\nsoon\n", r"given:3: not a number of milliseconds: 'soon'", "not a number"),
    ("arrival_ms\n0\n1_000\n", r"given:3: not a number of milliseconds: '1_000'", "not a number"),
    ("arrival_ms\n0\n٣\n", r"given:3: not a number of milliseconds", "not a number"),
    ("arrival_ms\n5\n\n4\n", r"given:4: arrivals must not fall: 4 after 5; sort it, or give --sort", "falling"),
    ("arrival_ms\n0\n-1\n", r"given:3: an arrival is 0 ms or later", "before the start"),
    ("arrival_ms\n0\nnan\n", r"given:3: must be a finite number", "not finite"),
    ("arrival_ms\n1\ninf\n", r"given:3: must be a finite number", "not finite"),
    ("arrival_ms\n1\n1e400\n", r"given:3: must be a finite number", "not finite"),
    ("arrival_ms\n1\n1763800000000\n", r"given:3: 1.7638e\+12 ms is more than 400 days .* created_ms", "too late"),
    (b"arrival_ms\n0\n\xff\xfe\n", r"given:3: not UTF-8 text", "not UTF-8"),
    ('arrival_ms\n0\n"1\n', r"given:3: not a row of CSV", "not CSV"),
    ("arrival_ms\n0\n" + "7" * (1 << 21) + "\n", r"given:3: a line has at most 1048576 bytes", "too long"),
    (gzip.compress(b"arrival_ms\n0\n", mtime=0)[:-9], r"cannot be read on, plain or gzip", "unreadable rest"),
]


@pytest.mark.parametrize(("content", "complaint", "_kind"), WRONG)
def test_a_bad_line_is_reported_with_its_file_its_number_and_its_value(
    tmp_path: pathlib.Path, content: str | bytes, complaint: str, _kind: str
) -> None:
    with pytest.raises(InvalidTrace, match=complaint):
        read_in(tmp_path, content)


@pytest.mark.parametrize(("content", "_complaint", "kind"), WRONG[:-1])
def test_a_lenient_reader_counts_a_bad_line_and_goes_on(
    tmp_path: pathlib.Path, content: str | bytes, _complaint: str, kind: str
) -> None:
    trace = read_in(tmp_path, content, LENIENT)
    assert len(trace) == 1
    assert trace.skipped == {kind: 1}


def test_a_lenient_reader_keeps_what_comes_before_the_end_of_a_cut_file(tmp_path: pathlib.Path) -> None:
    whole = gzip.compress("".join(["arrival_ms\n", *(f"{n * n}\n" for n in range(10_000))]).encode())
    trace = read_in(tmp_path, whole[: len(whole) // 2], LENIENT)
    assert 1000 < len(trace) < 10_000
    assert trace.skipped["unreadable rest"] == 1
    assert trace.arrival_ms[:4].tolist() == [0, 1, 4, 9]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("arrival_ms\n", "has no requests"),
        ("0\n1\n", r"given:1: expected the column 'arrival_ms' or 'time', got '0'"),
        ("\n\nwhen\n1\n", r"given:3: expected the column 'arrival_ms' or 'time', got 'when'"),
        ("arrival_ms,promt\n0,cat\n", r"given:1: unknown column 'promt'.* did you mean 'prompt'"),
        ("arrival_ms,priority\n0,batch\n", r"given:1: unknown column 'priority'.* did you mean 'tier'"),
        ("arrival_ms,arrival_ms\n0,0\n", r"given:1: a column is named twice"),
        (b"\x1f\x8b nonsense", "cannot be read on"),
        (b"\xff\xfea\x00", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_trace_is_reported_lenient_or_not(
    tmp_path: pathlib.Path, content: str | bytes, complaint: str
) -> None:
    with pytest.raises(InvalidTrace, match=complaint):
        read_in(tmp_path, content)
    with pytest.raises(InvalidTrace, match="given"):
        read_in(tmp_path, content, LENIENT)


def test_a_trace_of_which_nothing_is_left_says_why(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidTrace, match=r"has no requests, 2 skipped: 2 not a number"):
        read_in(tmp_path, "arrival_ms\na\nb\n", LENIENT)


def test_a_missing_trace_and_a_folder_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidTrace, match=r"no file at .*nowhere\.csv: give a CSV"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(InvalidTrace, match="cannot be read"):
        read(tmp_path)


def test_times_that_fall_are_sorted_with_what_belongs_to_them_if_asked(tmp_path: pathlib.Path) -> None:
    trace = read_in(tmp_path, "arrival_ms,prompt\n5,b\n1,a\n9,c\n", Asked(sorts=True))
    assert trace.arrival_ms.tolist() == [1, 5, 9]
    assert [row.prompt for row in trace.rows()] == ["a", "b", "c"]
    with pytest.raises(InvalidTrace, match="0 ms or later"):
        read_in(tmp_path, arrivals(5, -1), Asked(sorts=True))


def test_columns_beside_the_times_say_what_was_asked_for(tmp_path: pathlib.Path) -> None:
    header = "arrival_ms,prompt_index,model,adapters,steps,n,tier,slack_ms,hardness"
    trace = read_in(tmp_path, f"{header}\n0,7,heavy,ink pen,12,2,batch,500,.25\n3,,,,,,,,\n")
    first, second = trace.rows()
    assert (first.prompt_index, first.slack_ms, first.hardness, first.wish.tier) == (7, 500, 0.25, "batch")
    options = first.wish.options
    assert (options.model, options.adapters, options.steps, options.n) == ("heavy", ("ink", "pen"), 12, 2)
    assert second == second._replace(prompt_index=None, slack_ms=None, hardness=None, wish=trace.wishes[1])
    assert trace.wishes[1].options.n == 1


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("0,0,0,1,1,vip,1,.5", "unknown tier 'vip'|tier must be"),
        ("0,0,0,0,1,batch,1,.5", "whole number of steps, at least 1: got 0"),
        ("0,0,0,1,1.5,batch,1,.5", "whole number of images"),
        ("0,-1,0,1,1,batch,1,.5", "whole number of a prompt's place"),
        ("0,0,0,1,1,batch,soon,.5", "not a number of milliseconds"),
        ("0,0,0,1,1,batch,1,1.5", r"hardness must be in \[0, 1\]"),
        ("0,0,0,1000,1,batch,1,.5", "steps must be"),
    ],
)
def test_what_cannot_be_asked_for_is_reported(tmp_path: pathlib.Path, line: str, complaint: str) -> None:
    with pytest.raises(InvalidTrace, match=rf"given:2: .*({complaint})"):
        read_in(tmp_path, f"arrival_ms,prompt_index,model,steps,n,tier,slack_ms,hardness\n{line}\n")


def test_the_short_way_of_long_files_reads_what_the_long_one_reads(tmp_path: pathlib.Path) -> None:
    times = np.sort(np.random.default_rng(1).uniform(0, 1e6, 70_000))  # more than one chunk
    path = a_file(tmp_path, arrivals(*times.tolist()))
    assert (read(path).arrival_ms == times).all()
    assert (read(path, LENIENT).arrival_ms == times).all()
    assert read(path, Asked(limit=3)).arrival_ms.tolist() == times[:3].tolist()


@pytest.mark.parametrize("asked", [Asked(), LENIENT])
def test_a_file_of_too_many_requests_is_reported(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, asked: Asked
) -> None:
    monkeypatch.setattr(quick, "MAX_REQUESTS", 3)
    monkeypatch.setattr(building, "MAX_REQUESTS", 3)
    assert len(read_in(tmp_path, arrivals(0, 1, 2), asked)) == 3
    with pytest.raises(InvalidTrace, match="given:5: more than 3 requests; give --limit"):
        read_in(tmp_path, arrivals(0, 1, 2, 3), asked)


def test_a_pipe_is_read_once(tmp_path: pathlib.Path) -> None:
    import os
    import threading

    os.mkfifo(pipe := tmp_path / "pipe")
    writer = threading.Thread(target=lambda: pipe.write_text(arrivals(1, 2)))
    writer.start()
    assert read_trace(pipe) == [1, 2]
    writer.join()


def test_a_trace_lasts_at_most_its_longest(tmp_path: pathlib.Path) -> None:
    assert len(read_in(tmp_path, arrivals(0, MAX_SPAN_MS))) == 2


@pytest.mark.skipif(not TRACES.exists(), reason=f"published traces not at {TRACES}")
@pytest.mark.parametrize(("name", "rows"), [("azure_functions_1to8qps", 1633), ("twitter_2018_bursty", 20644)])
def test_published_traces_are_read_whole(name: str, rows: int) -> None:
    assert len(read_trace(TRACES / f"{name}.csv")) == rows


SAME_TIMES = {
    "ISO 8601": ("2026-11-28T03:00:00Z", "2026-11-28 03:00:01.5+00:00"),
    "seconds": ("1795834800", "1795834801.5"),
    "milliseconds": ("1795834800000", "1795834801500"),
}


@pytest.mark.parametrize("times", SAME_TIMES.values(), ids=SAME_TIMES)
@pytest.mark.parametrize("separator", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def test_times_since_1970_are_read_in_each_form_and_with_each_separator(
    tmp_path: pathlib.Path, times: tuple[str, str], separator: str
) -> None:
    rows = [separator.join(row) for row in (("time", "prompt"), (times[0], "a cat"), (times[1], "a dog"))]
    trace = read_in(tmp_path, "\n".join(rows))
    assert trace.arrival_ms.tolist() == [0, 1500]
    assert trace.texts == ("a cat", "a dog")


def test_the_columns_of_another_export_are_named_and_its_others_passed_over(tmp_path: pathlib.Path) -> None:
    asked = Asked(time_column="Created At", prompt_column="text")
    table = (
        "id;Created At;text;arrival_ms;latency\n1;2026-11-28 03:00:00;a cat;7;.5\n2;2026-11-28 03:00:02;a dog;8;.5\n"
    )
    lines = '{"Created At": 1795834800, "text": "a cat", "x": 1}\n{"Created At": 1795834802, "text": "a dog", "x": 2}\n'
    for content in (table, lines):
        trace = read_in(tmp_path, content, asked)
        assert (trace.arrival_ms.tolist(), trace.texts) == ([0, 2000], ("a cat", "a dog"))


@pytest.mark.parametrize(
    ("content", "asked", "complaint"),
    [
        (
            "arrival_ms\n2026-11-28T03:00:00Z\n",
            Asked(),
            "given:2: .*give --time-column arrival_ms for times since 1970",
        ),
        ("when\n2026-11-28T03:00:00Z\n", Asked(), "given:1: .*--time-column reads times since 1970"),
        ("time\n500\n", Asked(), "given:2: neither seconds nor milliseconds since 1970: '500'"),
        ("time\n28/11/2026\n", Asked(), "given:2: not a time such as"),
        ("when\n0\n", Asked(time_column="wen"), "unknown column 'wen': did you mean 'when'"),
    ],
)
def test_times_that_are_none_and_columns_that_are_not_there_are_refused_with_advice(
    tmp_path: pathlib.Path, content: str, asked: Asked, complaint: str
) -> None:
    with pytest.raises(PochadeError, match=complaint):
        read_in(tmp_path, content, asked)

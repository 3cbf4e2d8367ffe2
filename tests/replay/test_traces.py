"""Arrival traces and prompt files: what is read, what is generated, what a broken file says."""

import gzip
import itertools
import pathlib
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.world import captions
from replay.prompts import InvalidPrompts, builtin_prompts, read_prompts
from replay.traces import InvalidTrace, constant, poisson, read_trace

SHARED = pathlib.Path(__file__).parents[2].parent / "shared" / "data" / "traces"


def a_file(folder: pathlib.Path, content: str | bytes) -> pathlib.Path:
    path = folder / "given.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["bare", "byte order mark"])
def test_a_trace_is_read_plain_or_gzipped_whatever_its_name(
    tmp_path: pathlib.Path, pack: Callable[[bytes], bytes], mark: bytes
) -> None:
    path = a_file(tmp_path, pack(mark + b"arrival_ms\r\n0\r\n12.5\r\n12.5\r\n\r\n1e3\r\n"))
    assert read_trace(path) == [0, 12.5, 12.5, 1000]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("arrival_ms\n", "header and no arrivals"),
        ("0\n1\n", r"given.csv:1: expected the one column 'arrival_ms', got '0'"),
        ("arrival_ms,prompt\n0,cat\n", r"given.csv:1: expected the one column"),
        ("arrival_ms\n0\n1,2\n", r"given.csv:3: not a number"),
        ("arrival_ms\n0\nsoon\n", r"given.csv:3: not a number of milliseconds: 'soon'"),
        ("arrival_ms\n5\n\n4\n", r"given.csv:4: arrivals must not fall: 4 after 5"),
        ("arrival_ms\n-1\n", r"given.csv:2: an arrival is 0 ms or later"),
        ("arrival_ms\nnan\n", r"given.csv:2: an arrival is 0 ms or later"),
        ("arrival_ms\n1\ninf\n", r"given.csv:3: an arrival is 0 ms or later"),
        (gzip.compress(b"arrival_ms\n0\n")[:-9], "cannot be read"),
        (gzip.compress(b"arrival_ms\n0\n")[:12] + b"\xff" * 20, "cannot be read"),
        (b"\x1f\x8b nonsense", "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_broken_trace_names_the_file_the_line_and_the_value(
    tmp_path: pathlib.Path, content: str | bytes, complaint: str
) -> None:
    with pytest.raises(InvalidTrace, match=complaint):
        read_trace(a_file(tmp_path, content))


def test_a_missing_trace_and_a_folder_are_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidTrace, match=r"no trace at .*nowhere\.csv"):
        read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(InvalidTrace, match="cannot be read"):
        read_trace(tmp_path)


@pytest.mark.skipif(not SHARED.exists(), reason=f"published traces not at {SHARED}")
@pytest.mark.parametrize(("name", "rows"), [("azure_functions_1to8qps", 1633), ("twitter_2018_bursty", 20644)])
def test_published_traces_are_read_whole(name: str, rows: int) -> None:
    assert len(read_trace(SHARED / f"{name}.csv")) == rows


@given(st.floats(0.01, 10_000), st.integers(1, 300))
def test_constant_arrivals_start_at_0_and_are_evenly_spaced(rate: float, count: int) -> None:
    arrivals = constant(rate, count)
    assert len(arrivals) == count
    assert arrivals[0] == 0
    assert arrivals[-1] == pytest.approx((count - 1) * 1000 / rate)
    assert arrivals == sorted(arrivals)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_exponential_gaps() -> None:
    arrivals = poisson(20, 20_000, seed=3)
    gaps = [b - a for a, b in itertools.pairwise([0.0, *arrivals])]
    assert min(gaps) >= 0
    assert statistics.mean(gaps) == pytest.approx(50, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(50, rel=0.05)


def test_poisson_arrivals_belong_to_their_seed() -> None:
    assert poisson(5, 50, seed=1) == poisson(5, 50, seed=1)
    assert poisson(5, 50, seed=1) != poisson(5, 50, seed=2)


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan"), 5e-324])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(InvalidTrace, match="above 0: got"):
        constant(rate, 10)
    with pytest.raises(InvalidTrace, match="above 0: got"):
        poisson(rate, 10, seed=1)


def test_a_trace_of_no_requests_is_refused() -> None:
    with pytest.raises(InvalidTrace, match="at least 1 request: got 0"):
        constant(1, 0)


def test_prompts_are_lines_and_blank_ones_are_skipped(tmp_path: pathlib.Path) -> None:
    path = a_file(tmp_path, "\ufeff a red heart \r\n\n \nein schöner\u2028Baum\n")
    assert read_prompts(path) == ["a red heart", "ein schöner\u2028Baum"]


@pytest.mark.parametrize(
    ("content", "complaint"), [("", "write one a line"), (" \n\n", "write one a line"), (b"\xff\xfe", "UTF-8")]
)
def test_a_prompt_file_without_prompts_says_what_to_do(
    tmp_path: pathlib.Path, content: str | bytes, complaint: str
) -> None:
    with pytest.raises(InvalidPrompts, match=complaint):
        read_prompts(a_file(tmp_path, content))


def test_a_missing_prompt_file_says_what_to_do(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidPrompts, match="one prompt a line"):
        read_prompts(tmp_path / "nowhere.txt")


def test_our_prompts_are_all_pictures_the_tiny_world_can_paint() -> None:
    ours = set(builtin_prompts(1000))
    scenes = {prompt: captions.parse(prompt) for prompt in ours}
    assert [prompt for prompt, scene in scenes.items() if scene is None] == []
    assert {len(scene.objects) for scene in scenes.values() if scene} == {1, 2, 3, 4, 5, 6}
    assert len(ours) > 50


def test_our_prompts_come_once_each_before_any_comes_again() -> None:
    known = len(set(builtin_prompts(1000)))
    assert len(set(builtin_prompts(known, seed=4))) == known
    assert len(builtin_prompts(known + 7, seed=4)) == known + 7
    assert builtin_prompts(0) == []


def test_our_prompts_belong_to_their_seed() -> None:
    assert builtin_prompts(20, seed=1) == builtin_prompts(20, seed=1)
    assert builtin_prompts(20, seed=1) != builtin_prompts(20, seed=2)


def test_a_negative_number_of_prompts_is_refused() -> None:
    with pytest.raises(InvalidPrompts, match="0 or more: got -1"):
        builtin_prompts(-1)

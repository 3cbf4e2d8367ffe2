"""Prompts for the requests of a trace."""

import pathlib
from collections import Counter

import pytest

from replay.traces import Asked, InvalidTrace, Trace
from replay.traces.trace import of_arrivals
from replay.traces.wording import SAMPLE, filled, worded
from schemas.errors import Unknown
from tests.replay.traces.files import arrivals, jsonl, read_in

TEXTS = ("a", "b", "c")


def prompts(trace: Trace) -> list[str | None]:
    return [row.prompt for row in trace.rows()]


def test_prompts_come_in_turn_where_the_trace_has_no_index(tmp_path: pathlib.Path) -> None:
    trace = read_in(tmp_path, arrivals(0, 1, 2, 3), Asked(prompts=TEXTS))
    assert prompts(trace) == ["a", "b", "c", "a"]
    assert trace.has_prompts
    assert not read_in(tmp_path, arrivals(0)).has_prompts


def test_prompts_come_by_index_where_the_trace_has_one_unless_told_otherwise(tmp_path: pathlib.Path) -> None:
    content = "arrival_ms,prompt_index\n0,2\n1,0\n2,2\n"
    assert prompts(read_in(tmp_path, content)) == [None, None, None]
    assert prompts(read_in(tmp_path, content, Asked(prompts=TEXTS))) == ["c", "a", "c"]
    assert prompts(read_in(tmp_path, content, Asked(prompts=TEXTS, order="turn"))) == ["a", "b", "c"]


def test_prompts_replace_the_traces_own(tmp_path: pathlib.Path) -> None:
    content = jsonl({"arrival_ms": 0, "prompt": "own"})
    assert prompts(read_in(tmp_path, content)) == ["own"]
    assert prompts(read_in(tmp_path, content, Asked(prompts=TEXTS))) == ["a"]


def test_drawn_prompts_belong_to_the_request_and_the_seed() -> None:
    long, short = of_arrivals(range(3000), "t", "t"), of_arrivals(range(10), "t", "t")
    drawn = prompts(worded(long, TEXTS, SAMPLE, seed=1))
    assert prompts(worded(short, TEXTS, SAMPLE, seed=1)) == drawn[:10]
    assert prompts(worded(long, TEXTS, SAMPLE, seed=2)) != drawn
    assert min(Counter(drawn).values()) > 900


def test_an_index_that_is_missing_or_points_at_none_is_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(InvalidTrace, match="not every request has a prompt_index"):
        read_in(tmp_path, arrivals(0), Asked(prompts=TEXTS, order="index"))
    pointing = read_in(tmp_path, "arrival_ms,prompt_index\n0,2\n")
    with pytest.raises(InvalidTrace, match="request 0 has prompt_index 2; there are 2 prompts, 0 to 1"):
        worded(pointing, TEXTS[:2], "", 0)
    with pytest.raises(Unknown, match="unknown order of prompts 'random'"):
        worded(pointing, TEXTS, "random", 0)


def test_only_requests_without_a_text_are_filled_in_turn(tmp_path: pathlib.Path) -> None:
    assert prompts(filled(read_in(tmp_path, "arrival_ms,prompt\n0,own\n1,\n2,mine\n3,\n"), TEXTS)) == [
        "own", "b", "mine", "a",
    ]  # fmt: skip
    assert prompts(filled(read_in(tmp_path, "arrival_ms,prompt_index\n0,7\n1,\n"), TEXTS)) == ["a", "b"]
    assert prompts(filled(read_in(tmp_path, arrivals(0, 1)), TEXTS)) == ["a", "b"]

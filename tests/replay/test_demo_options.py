import pathlib
from typing import Any

import pytest

from replay.demo_options import DEFAULT_COUNT, DemoOptions, due_of
from schemas.errors import PochadeError


def options(**changes: Any) -> DemoOptions:
    values: dict[str, Any] = {
        "prompts": None, "count": None, "rate_rps": 4.0, "trace": None, "policy": None, "workers": 2, "engine": None,
        "catalog": None, "report": None, "gallery": None, "seed": 0, "is_kept": False,
    }  # fmt: skip
    return DemoOptions(**(values | changes))


@pytest.fixture
def prompts(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "prompts.txt").write_text("one\ntwo\nthree\n")
    return tmp_path / "prompts.txt"


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "trace.csv").write_text("arrival_ms\n0\n5\n500\n")
    return tmp_path / "trace.csv"


def test_without_options_two_dozen_of_our_prompts_come_four_a_second() -> None:
    due = due_of(options())
    assert len(due) == DEFAULT_COUNT
    assert len({each.row.prompt for each in due}) == DEFAULT_COUNT
    assert [each.offset_ms for each in due[:3]] == [0, 250, 500]


def test_a_prompt_file_is_sent_once_through_in_its_order(prompts: pathlib.Path) -> None:
    assert [each.row.prompt for each in due_of(options(prompts=prompts))] == ["one", "two", "three"]


def test_more_requests_than_prompts_begin_again(prompts: pathlib.Path) -> None:
    assert [each.row.prompt for each in due_of(options(prompts=prompts, count=4))][3] == "one"


def test_a_trace_gives_number_and_pace(trace: pathlib.Path) -> None:
    assert [each.offset_ms for each in due_of(options(trace=trace))] == [0, 5, 500]
    assert len(due_of(options(trace=trace, count=2))) == 2


def test_more_requests_than_the_trace_has_are_refused(trace: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match=r"--count 4 is more than the 3 arrivals"):
        due_of(options(trace=trace, count=4))

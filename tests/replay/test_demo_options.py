import pathlib
from typing import Any

import pytest
from click.testing import CliRunner

from replay.commands.demo import demo
from replay.demo_options import (
    DEFAULT_COUNT,
    FREEZE_S,
    PEAK,
    REUSE_COUNT,
    DemoOptions,
    Reuse,
    due_of,
    freeze_s_of,
    parameters_of,
    reuse_of,
)
from schemas.errors import PochadeError
from streams.settings import load
from tests.paths import ROOT

REUSING = """
[reuse]
heavy = [{ k = 6, cost_share = 0.8, quality = 0.99 }, { k = 12, cost_share = 0.55, quality = 0.95 }]

[reuse_profile]
neighbours = [{ similarity = -1.0, share = 1.0 }]
"""


def options(**changes: Any) -> DemoOptions:
    values: dict[str, Any] = {
        "prompts": None, "count": None, "rate_rps": None, "trace": None, "policy": None, "workers": 2, "engine": None,
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


@pytest.fixture
def reusing(tmp_path: pathlib.Path) -> str:
    """A catalog that was measured to reuse images."""
    file = tmp_path / "reusing.toml"
    file.write_text((ROOT / "infra" / "catalogs" / "profile.toml").read_text() + REUSING)
    return str(file)


def test_a_policy_that_begins_with_reuse_shows_it_where_the_catalog_has_measurements(reusing: str) -> None:
    settings = load({"catalog": "profile"})
    assert reuse_of(options(policy="argus"), settings) is Reuse.UNMEASURED
    assert reuse_of(options(policy="argus", catalog=reusing), settings) is Reuse.SHOWN
    assert reuse_of(options(policy="hadis", catalog=reusing), settings) is Reuse.NONE
    assert reuse_of(options(catalog=reusing), settings) is Reuse.NONE


@pytest.mark.parametrize(("reuse", "count"), [(Reuse.SHOWN, REUSE_COUNT), (Reuse.UNMEASURED, DEFAULT_COUNT)])
def test_prompts_that_may_be_reused_come_back_and_ask_for_it(reuse: Reuse, count: int) -> None:
    due = due_of(options(), reuse)
    assert len(due) == count
    assert len({each.row.prompt for each in due}) < count
    assert {each.row.wish.options.reuse for each in due} == {"own"}
    assert {each.row.wish.options.reuse for each in due_of(options())} == {""}


def test_prompts_of_a_file_ask_for_reuse_too_and_stay_as_they_are(prompts: pathlib.Path) -> None:
    due = due_of(options(prompts=prompts), Reuse.SHOWN)
    assert [each.row.prompt for each in due] == ["one", "two", "three"]
    assert {each.row.wish.options.reuse for each in due} == {"own"}


def test_a_small_stream_is_planned_for_as_at_a_peak_of_what_its_workers_can_generate(reusing: str) -> None:
    asked = options(policy="argus", catalog=reusing, rate_rps=2.0)
    parameters = parameters_of(asked, due_of(asked, Reuse.SHOWN), load())
    assert parameters is not None
    assert parameters["overprovision"] == pytest.approx(PEAK * 2 * 5 / 2, rel=0.01)  # two workers, five images a second


def test_a_demand_that_a_user_set_and_policies_that_know_none_are_left_alone(reusing: str) -> None:
    asked = options(policy="argus", catalog=reusing)
    due = due_of(asked, Reuse.SHOWN)
    assert parameters_of(asked, due, load({"planner": {"parameters": {"overprovision": 2}}})) is None
    guarded = parameters_of(asked, due, load({"planner": {"parameters": {"guarded": 1}}}))
    assert guarded is not None
    assert guarded["guarded"] == 1
    assert guarded["overprovision"] > 1
    assert parameters_of(options(policy="nirvana", catalog=reusing), due, load()) is None


def test_a_demo_reuses_within_the_measured_floors_and_guard_unless_a_user_wants_none() -> None:
    asked = options(policy="argus", catalog="tiny")
    due = due_of(asked, Reuse.SHOWN)
    shown = parameters_of(asked, due, load())
    assert shown is not None
    assert shown["guarded"] == 1
    published = parameters_of(asked, due, load({"planner": {"parameters": {"guarded": 0}}}))
    assert published is not None
    assert published["guarded"] == 0


def test_where_nobody_measured_a_guard_a_demo_reuses_as_published(reusing: str) -> None:
    asked = options(policy="argus", catalog=reusing)
    parameters = parameters_of(asked, due_of(asked, Reuse.SHOWN), load())
    assert parameters is not None
    assert "guarded" not in parameters


def test_a_store_is_frozen_only_where_the_policy_can_answer_it_or_somebody_asks() -> None:
    assert freeze_s_of(options(policy="argus")) == FREEZE_S
    assert freeze_s_of(options(policy="nirvana")) == 0.0
    assert freeze_s_of(options(policy="nirvana", freeze_s=5.0)) == 5.0
    assert freeze_s_of(options(policy="argus", freeze_s=0.0)) == 0.0


def test_help_says_how_many_requests_are_sent() -> None:
    said = " ".join(CliRunner().invoke(demo, ["--help"]).output.split())
    assert f"(default: {DEFAULT_COUNT}, {REUSE_COUNT} where images are reused" in said

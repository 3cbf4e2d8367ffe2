"""`pochade plan show` as a terminal has it."""

import dataclasses

import pytest

from agents.commands.plan_tables import decisions_as_json, print_history, print_plan
from planner.control.renewal.same_plan import decisions
from schemas.messages import Expected, ResidencyPlan, Route
from tests.builders import NOW_MS, a_plan, a_reuse_plan


def test_names_stand_in_the_table_as_they_are_though_they_look_like_emoji_or_colours(
    capsys: pytest.CaptureFixture[str],
) -> None:
    held = ResidencyPlan(workers={"one": {"adapter:candy": "device"}})
    print_plan(dataclasses.replace(a_plan(), residency=held, reason="all on [red]"), None)
    shown = capsys.readouterr().out
    assert "adapter:candy: device of 1" in shown
    assert "all on [red]" in shown


def test_what_a_plan_expects_has_units(capsys: pytest.CaptureFixture[str]) -> None:
    expected = Expected(demand_rps=0.04132, utilization=0.05458, heavy_share=1, quality=0.9712)
    print_plan(dataclasses.replace(a_plan(), expected=expected), None)
    said = "demand 0.0413 requests/s, utilization 5%, share of the best level 100%, quality 0.971"
    assert f"expected\t{said} (number of prompts unknown)\n" in capsys.readouterr().out
    sure = dataclasses.replace(
        expected, quality_low=0.95, quality_high=0.98, quality_prompts=800, evidence="heavy gains +0.200 over light"
    )
    print_plan(dataclasses.replace(a_plan(), expected=sure), None)
    out = capsys.readouterr().out
    assert "quality 0.971 [0.950, 0.980] (95 %, 800 prompts)\n" in out
    assert "evidence\theavy gains +0.200 over light\n" in out


def test_how_images_may_begin_from_others_is_shown_where_a_route_asks_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = a_plan(reuse=a_reuse_plan())
    print_plan(plan, None)
    assert "equal facts" not in capsys.readouterr().out
    print_plan(dataclasses.replace(plan, routes=(Route(levels={"heavy~k12": 1.0}),)), None)
    assert "equal facts 50%" in capsys.readouterr().out


def test_the_history_has_a_line_for_each_decision_and_says_for_how_long_it_stood(
    capsys: pytest.CaptureFixture[str],
) -> None:
    beats = [a_plan(version=at, created_ms=NOW_MS + 5000 * at, memory=f'{{"at": {at}}}') for at in range(1, 41)]
    changed = a_plan(version=41, created_ms=NOW_MS + 605_000, dispatch="pull", reason="1 worker pulls")
    found = decisions([*beats, changed])
    print_history(found, NOW_MS + 635_000)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(line[0], *line[3:]) for line in lines[1:]] == [
        ("1", "10m", "40", "test"),
        ("41", "30s", "1", "1 worker pulls"),
    ]
    assert [each["in_force_ms"] for each in decisions_as_json(found, NOW_MS + 635_000)] == [600_000, 30_000]

"""`pochade report` as a person calls it."""

import json
import pathlib
import shlex

import click
import pytest
from click.testing import CliRunner, Result

from replay.commands.live import run
from replay.reports.files import text_of
from replay.reports.provenance import command_line
from streams.as_typed import RepeatableCommand
from streams.cli import main
from tests.replay.reports.samples import CHANCE, a_policy, a_report


def called(*words: str | pathlib.Path) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, words)])


@pytest.fixture
def two(tmp_path: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """Sixteen workers, and fourteen that violate more."""
    before = a_report({"ours": a_policy(violation_rate=[0.01, 0.011, 0.012], heavy_share=[0.5, 0.5, 0.6])}, workers=16)
    after = a_report({"ours": a_policy(violation_rate=[0.031, 0.032, 0.035], heavy_share=[0.4, 0.4, 0.5])}, workers=14)
    paths = tmp_path / "before" / "report.json", tmp_path / "after" / "report.json"
    for path, report in zip(paths, (before, after), strict=True):
        path.parent.mkdir()
        path.write_text(text_of(report))
    return paths


def test_two_reports_are_compared_policy_by_policy(two: tuple[pathlib.Path, pathlib.Path]) -> None:
    reported = called("compare", two[0], two[1].parent)
    assert reported.exit_code == 0, reported.output
    assert "warning: different workers: 16 and 14" in reported.stderr
    lines = [line.split("\t") for line in reported.stdout.splitlines()]
    assert lines[0] == ["policy", "metric", "first", "second", "difference", "95 % interval", "second is"]
    violations = next(line for line in lines if line[1:2] == ["violations"])
    assert violations[2:5] == ["1.10 %", "3.27 %", "+2.17 points"]
    assert violations[6] == "worse"
    assert ["ours", "heavy share", "53.3 %", "43.3 %", "-10.0 points", "-10.0 to -10.0 points", "-"] in lines
    assert lines[-1] == ["ours, second against first: violations worse, quality same, cost same"]


def test_the_comparison_as_json_has_numbers_and_warnings(two: tuple[pathlib.Path, pathlib.Path]) -> None:
    reported = called("compare", *two, "-o", "json", "--all")
    found = json.loads(reported.stdout)
    assert found["warnings"] == ["different workers: 16 and 14"]
    row = next(row for row in found["differences"] if row["metric"] == "violation_rate")
    assert row["difference"] == pytest.approx(0.021667)
    assert row["interval"][0] > 0
    assert row["is_paired"] is True
    assert row["verdict"] == "worse"
    assert {row["metric"] for row in found["differences"]} > {"requests", "plans"}


def test_a_file_that_is_no_report_ends_with_an_error(two: tuple[pathlib.Path, pathlib.Path]) -> None:
    two[1].write_text("{}")
    reported = called("compare", *two)
    assert reported.exit_code == 1
    assert "is no report of `pochade simulate`" in reported.stderr


def test_fid_is_not_told_twice(tmp_path: pathlib.Path) -> None:
    (tmp_path / "report.json").write_text(text_of(a_report({"ours": a_policy(fid=[20.0], quality=[-20.0])})))
    metrics = [line.split("\t")[1] for line in called("compare", tmp_path, tmp_path).stdout.splitlines()[:-1]]
    assert "FID" in metrics
    assert "quality" not in metrics


def test_fid_and_facts_are_shown_with_their_scales_and_not_judged(tmp_path: pathlib.Path) -> None:
    for name, report in (
        ("a", a_report({"ours": a_policy(fid=[20.0], quality=[-20.0])}, scale="fid")),
        ("b", a_report({"ours": a_policy(quality=[0.9])})),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text(text_of(report))
    reported = called("compare", tmp_path / "a", tmp_path / "b").stdout
    lines = [line.split("\t") for line in reported.splitlines()]
    assert ["ours", "quality", "FID 20.00", "0.9000 facts", "-", "-", "not comparable"] in lines
    assert "quality not comparable" in reported


def test_the_page_is_drawn_again_from_the_report_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "report.json").write_text(text_of(a_report()))
    reported = called("page", tmp_path)
    assert reported.exit_code == 0, reported.output
    assert reported.stdout.strip() == f"page: {tmp_path / 'report.html'}"
    assert CHANCE in (tmp_path / "report.html").read_text()


def test_a_command_is_reported_as_it_would_be_typed_again() -> None:
    reported = []

    @click.command(cls=RepeatableCommand)
    @click.argument("trace")
    @click.option("--policy", "policies", multiple=True)
    @click.option("--drop/--no-drop", default=True)
    @click.option("--seeds", type=int, default=1)
    @click.option("--report")
    @click.pass_context
    def simulate(context: click.Context, **_asked: object) -> None:
        reported.append(command_line(context))

    group = click.Group("main", {"simulate": simulate})
    asked = ["simulate", "my trace.csv", "--policy", "a", "--policy", "b", "--no-drop", "--report", "out"]
    CliRunner().invoke(group, asked)
    assert reported == ["pochade simulate 'my trace.csv' --policy a --policy b --no-drop"]


CONVERTED = [
    ["--model", "*="],
    ["--model", "M0001=heavy", "--model", "*="],
    ["--to", "4:32"],
    ["--to", "240/m:32/s"],
    ["--interval", "90s"],
    ["--since", "2h", "--until", "2026-11-22T09:00"],
    ["--scale", "2", "--speed", "0.50", "--loop", "3"],
    ["--prompts", "my prompts.txt"],
    ["--from-topic", "--lenient"],
    ["--no-drop", "--slo", "5", "--serve", "3"],
]


@pytest.mark.parametrize("options", CONVERTED, ids=" ".join)
def test_options_that_convert_their_values_are_reported_as_typed(
    options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = []

    def keep(context: click.Context, **_asked: object) -> None:
        reported.append(command_line(context))

    monkeypatch.setattr(run, "callback", click.pass_context(keep))
    typed = ["replay", "run", *options, "--report", "out"]
    CliRunner().invoke(click.Group("main", {"replay": click.Group("replay", {"run": run})}), typed)
    words = shlex.split(reported[0])
    assert words[:3] == ["pochade", "replay", "run"]
    assert sorted(words[3:]) == sorted(options)


def test_every_option_that_converts_its_value_is_among_those() -> None:
    plain = (click.STRING.__class__, click.types.IntParamType, click.types.FloatParamType, click.types.BoolParamType)
    converts = {option.opts[0] for option in run.params if not isinstance(option.type, (*plain, click.Choice))}
    tried = {word for options in CONVERTED for word in options} | {"--report", "path"}
    assert converts <= tried

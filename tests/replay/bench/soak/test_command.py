"""`pochade soak` before anything is started: what is over is shown again, and other options are refused."""

import json
import pathlib

from click.testing import CliRunner, Result

from replay.bench.soak import state
from replay.bench.soak.options import SoakOptions
from replay.bench.soak.report import Session, build
from replay.bench.soak.samples import Watch
from replay.bench.soak.tally import Tally
from streams.cli import main


def soak(home: pathlib.Path, *words: str) -> Result:
    """Call the command."""
    command = ["--home", str(home), "soak", "--report", str(home / "soak.json"), *words]
    return CliRunner().invoke(main, command, prog_name="pochade")


def a_report(tally: Tally) -> str:
    """The report of a run that is over."""
    return json.dumps(build(tally, Watch(), Session(), {}, {}, is_over=True))


def test_a_report_of_a_run_that_is_over_is_shown_and_not_run_again(tmp_path: pathlib.Path) -> None:
    tally = Tally("soak-1")
    tally.acknowledged(0)
    tally.has_ended(0, "COMPLETED")
    (tmp_path / "soak.json").write_text(a_report(tally))
    done = soak(tmp_path, "--requests", "5")
    assert done.exit_code == 0
    assert "a run that is over" in done.output
    assert "lost / duplicates   0 / 0" in done.output


def test_a_report_of_lost_requests_is_an_error_each_time_that_it_is_shown(tmp_path: pathlib.Path) -> None:
    tally = Tally("soak-1")
    tally.acknowledged(7)
    (tmp_path / "soak.json").write_text(a_report(tally))
    done = soak(tmp_path, "--requests", "5")
    assert done.exit_code == 1
    assert "1 have no result" in done.output
    assert "soak-1-00000007" in done.output


def test_a_run_does_not_go_on_with_other_options(tmp_path: pathlib.Path) -> None:
    kept = {"version": state.VERSION, "asked": SoakOptions(requests=9).asked()}
    state.write(state.state_file(tmp_path / "soak.json"), kept)
    done = soak(tmp_path, "--requests", "5")
    assert done.exit_code == 1
    assert "is of a run with other options" in done.output
    assert "'requests': 9" in done.output


def test_a_damaged_state_is_named(tmp_path: pathlib.Path) -> None:
    state.state_file(tmp_path / "soak.json").write_text("{")
    done = soak(tmp_path, "--requests", "5")
    assert done.exit_code == 1
    assert "soak.json.state cannot be read" in done.output


def test_a_run_ends_by_its_requests_or_by_its_hours(tmp_path: pathlib.Path) -> None:
    for words in ([], ["--requests", "5", "--hours", "1"]):
        done = soak(tmp_path, *words)
        assert done.exit_code == 2
        assert "give --requests or --hours" in done.output

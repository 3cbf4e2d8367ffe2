"""A process that a test leaves behind is found, and fails the whole session."""

import pathlib
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.left_over import end_left_over, left_over
from tests.paths import ROOT
from tests.patience import PATIENCE_S

PAUSE = "import signal; print('on', flush=True); signal.pause()"


def paused(*arguments: str, cwd: pathlib.Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", PAUSE, *arguments], stdout=subprocess.PIPE, cwd=cwd)
    assert process.stdout is not None
    assert process.stdout.readline() == b"on\n"
    return process


@pytest.mark.parametrize("named", [["--home", "{}/home"], ["--home={}"], []])
def test_a_process_is_found_by_its_command_line_and_by_where_it_works(
    tmp_path: pathlib.Path, named: Sequence[str]
) -> None:
    with paused(*(each.format(tmp_path) for each in named), cwd=ROOT if named else tmp_path) as process:
        assert [each.pid for each in left_over(tmp_path)] == [process.pid]
        assert left_over(tmp_path / "another") == []
        assert left_over(tmp_path.with_name(tmp_path.name[:-1])) == []
        process.kill()
    assert left_over(tmp_path) == []


def test_a_process_that_is_about_to_end_is_waited_for(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.left_over.ENDING_S", PATIENCE_S)
    with paused(cwd=tmp_path) as process:
        process.terminate()
        assert end_left_over(tmp_path) == []


def test_a_session_that_leaves_a_process_fails_and_names_it(tmp_path: pathlib.Path) -> None:
    careless = f"""
import subprocess, sys

from tests import left_over
from tests.conftest import no_process_is_left

left_over.ENDING_S = 0.2

def test_nothing(tmp_path):
    subprocess.Popen([sys.executable, "-c", {PAUSE!r}, "forgotten"], cwd=tmp_path, stdout=subprocess.DEVNULL)
"""
    (tmp_path / "test_careless.py").write_text(careless)
    command = [sys.executable, "-m", "pytest", "-c", str(tmp_path / "none.ini"), f"--rootdir={tmp_path}"]
    (tmp_path / "none.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'base'}", str(tmp_path / "test_careless.py")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed, 1 error" in done.stdout
    assert "these processes were left behind, and have been killed:" in done.stdout
    assert "forgotten" in done.stdout
    assert left_over(tmp_path) == []

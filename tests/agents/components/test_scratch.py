"""Temporary folders of components, and what is left of killed processes."""

import os
import pathlib
import signal
import subprocess
import sys
import time

from agents.components.scratch import NEW_S, Scratch
from tests.paths import ROOT
from tests.patience import PATIENCE_S

KILLED = """
import os, pathlib, signal, sys
from agents.components.scratch import Scratch
scratch = Scratch(pathlib.Path(sys.argv[1]))
folder = scratch.folder()
(pathlib.Path(folder.name) / "config.json").write_text("{}")
if sys.argv[2] == "waits":
    print("on", flush=True)
    signal.pause()
os.kill(os.getpid(), signal.SIGKILL)
"""


def aged(folder: pathlib.Path) -> list[pathlib.Path]:
    """What lies there, as if it were made long ago."""
    there = sorted(folder.iterdir())
    for each in there:
        os.utime(each, (time.time() - 2 * NEW_S,) * 2)
    return there


def test_a_folder_and_all_in_it_is_gone_with_its_owner(tmp_path: pathlib.Path) -> None:
    scratch = Scratch(tmp_path)
    first, second = scratch.folder(), scratch.folder()
    first.cleanup()
    assert not pathlib.Path(first.name).exists()
    assert pathlib.Path(second.name).parent == scratch.path
    path = scratch.path
    del scratch
    assert not path.exists()


def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), "dies"], cwd=ROOT, check=False, timeout=PATIENCE_S)
    (left,) = tmp_path.iterdir()
    young = Scratch(tmp_path)
    assert left.exists(), "it may be one whose process has not locked it yet"
    aged(tmp_path)
    next_one = Scratch(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([young.path, next_one.path])


def test_a_folder_of_a_process_that_lives_stays(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), "waits"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        process.stdout.readline()
        (held,) = aged(tmp_path)
        Scratch(tmp_path)
        assert list(held.rglob("config.json"))
        process.send_signal(signal.SIGKILL)

"""Faults on real processes of the test's own, without a broker."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from replay.local.processes import RoleProcess, role_process
from replay.verify.chaos import launching
from replay.verify.chaos.faults import disks
from replay.verify.chaos.world import NotThere, awaited
from tests.paths import ROOT
from tests.patience import PATIENCE_S


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"], text=True) as process:
        yield process
        process.kill()


def test_two_names_change_places_at_once(tmp_path: pathlib.Path) -> None:
    folder, aside = tmp_path / "images", tmp_path / "aside"
    folder.mkdir()
    (folder / "a.png").write_bytes(b"a")
    aside.touch()
    disks.exchange(folder, aside)
    assert (folder.is_file(), (aside / "a.png").read_bytes()) == (True, b"a")
    disks.exchange(folder, aside)
    assert (folder / "a.png").read_bytes() == b"a"


def test_names_that_are_not_there_cannot_change_places(tmp_path: pathlib.Path) -> None:
    with pytest.raises(NotThere, match="cannot exchange"):
        disks.exchange(tmp_path / "images", tmp_path / "aside")


def test_a_process_with_a_moved_clock_is_that_far_off() -> None:
    reported = run(
        "import time; print(time.time(), time.time_ns())", lambda process: launching.skewed(process, -25_000)
    )
    seconds, nanoseconds = reported.split()
    assert 20 < time.time() - float(seconds) < 60
    assert 20 < time.time() - int(nanoseconds) / 1e9 < 60


def test_a_role_that_is_launched_otherwise_is_the_same_command_behind_a_statement() -> None:
    right = role_process("router", ["router"], ["--home", "/h"], {})
    wrong = launching.skewed(launching.stallable(right, pathlib.Path("/h/mark")), 1500)
    assert (wrong.name, wrong.command[3:]) == (right.name, right.command[3:])
    assert wrong.command[2].endswith(f"; {right.command[2]}")


def test_while_the_store_hangs_a_process_waits_for_it_and_then_goes_on(tmp_path: pathlib.Path) -> None:
    program = (
        "import pathlib, threading, streams.store.folder as s; "
        f"mark = pathlib.Path({str(tmp_path / 'mark')!r}); mark.touch(); done = threading.Event(); "
        f"store = s.FolderImageStore(pathlib.Path({str(tmp_path / 'images')!r})); "
        "threading.Thread(target=lambda: (store.put('a', b'a'), done.set())).start(); "
        "print(done.wait(0.2)); mark.unlink(); print(done.wait(10))"
    )
    assert run(program, lambda process: launching.stallable(process, tmp_path / "mark")) == "False\nTrue\n"


def run(program: str, launched: Callable[[RoleProcess], RoleProcess]) -> str:
    process = launched(RoleProcess(name="any", command=(sys.executable, "-c", program)))
    return subprocess.run(process.command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_a_worker_on_a_small_disk_alone_sees_it_and_is_told_that_it_is_full(tmp_path: pathlib.Path) -> None:
    if not launching.can_have_small_disk():
        pytest.skip("this system lets no process of ours mount a file system of its own")
    (tmp_path / "before").touch()
    program = (
        f"import os, pathlib; folder = pathlib.Path({str(tmp_path)!r}); print(list(folder.iterdir()))\n"
        "try: (folder / 'big').write_bytes(b'x' * 200_000)\n"
        "except OSError as error: print(error.strerror)"
    )
    assert run(program, lambda process: launching.on_small_disk(process, tmp_path, 100_000)) == (
        "[]\nNo space left on device\n"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["before"]


def test_a_process_that_ignores_its_end_is_killed() -> None:
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        waited = sum(awaited(process, most_s=0.1))
        with contextlib.suppress(ChildProcessError):
            process.wait(PATIENCE_S)
    assert (process.returncode, waited >= 0.1) == (-signal.SIGKILL, True)


def test_a_stopped_process_is_found_stopped(sleeper: "subprocess.Popen[str]") -> None:
    os.kill(sleeper.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
    os.kill(sleeper.pid, signal.SIGCONT)
    assert sleeper.poll() is None

"""Child processes: what they say is kept, none outlives who started it, and all are ended together."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from streams.processes.children import end_all, spawn
from tests.paths import ROOT
from tests.patience import PATIENCE_S

READY = "print('on', flush=True)"
STUBBORN = f"import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}; time.sleep(60)"
OBEDIENT = f"import signal; {READY}; signal.pause()"


def started(code: str) -> "subprocess.Popen[bytes]":
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"on\n"
    return child


def test_all_are_told_to_end_and_who_does_not_is_killed() -> None:
    with started(STUBBORN) as stubborn, started(OBEDIENT) as obedient, started(READY) as over:
        over.wait(PATIENCE_S)
        assert end_all([stubborn, obedient, over], 1) == [-signal.SIGKILL, -signal.SIGTERM, 0]
        assert end_all([stubborn, obedient, over]) == [-signal.SIGKILL, -signal.SIGTERM, 0]


def test_what_a_real_role_says_is_in_its_log(tmp_path: pathlib.Path) -> None:
    child = spawn([sys.executable, "-c", "print('painting')"], tmp_path / "logs" / "w.log")
    assert child.wait(PATIENCE_S) == 0
    assert (tmp_path / "logs" / "w.log").read_text() == "painting\n"
    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700, "prompts may stand in it"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_a_role_dies_with_the_one_who_started_it_even_by_kill_9(tmp_path: pathlib.Path) -> None:
    program = textwrap.dedent(
        """
        import pathlib, sys
        from streams.processes.children import spawn
        child = spawn([sys.executable, "-c", "import signal; signal.pause()"], pathlib.Path(sys.argv[1]))
        print(child.pid, flush=True)
        child.wait()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "w.log")], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        fd = os.pidfd_open(orphan)
        parent.kill()
        parent.wait(PATIENCE_S)
    assert has_ended(fd, timeout_ms=30_000)


def has_ended(fd: int, timeout_ms: int) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(timeout_ms))

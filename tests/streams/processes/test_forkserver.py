"""Processes forked from a server that has imported: they run, end, are ended and die with their server as others do."""

import os
import pathlib
import signal
import sys
import time

import psutil
import pytest

from streams.processes import forkserver
from streams.processes.forkserver import ForkedChild, ForkFailed, ForkServer, LastingForkServer
from tests.paths import ROOT
from tests.patience import PATIENCE_S
from tests.streams.processes.test_children import has_ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pidfd and the signal at a parent's death are Linux's")


def module(folder: pathlib.Path, text: str) -> dict[str, str]:
    """An environment in which `the_module` is a module of this text."""
    (folder / "the_module.py").write_text(text)
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def started(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, text: str = "") -> ForkServer:
    for name, value in module(folder, text).items():
        monkeypatch.setenv(name, value)
    return ForkServer(["the_module"], folder / "server.log")


WAITING = """
import click, streams.cli
def main(args):
    import os, signal, sys
    print("here", *args, os.environ.get("WHO"), os.getcwd(), flush=True)
    if args == ["wait"]:
        signal.pause()
    sys.exit(int(args[0]))
streams.cli.main = main
"""


def wait_for(log: pathlib.Path, text: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not (log.exists() and text in log.read_text()):
        assert time.monotonic() < end_s, f"{log} has no {text!r}"
        time.sleep(0.01)


def test_a_forked_process_runs_with_its_own_arguments_environment_and_log(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path, monkeypatch, WAITING) as server:
        children = [server.spawn([str(n)], tmp_path / f"{n}.log", {"WHO": f"me{n}"}) for n in (0, 3)]
        assert [child.wait(PATIENCE_S) for child in children] == [0, 3]
        assert [child.poll() for child in children] == [0, 3]
    assert (tmp_path / "3.log").read_text() == f"here 3 me3 {os.getcwd()}\n"


def test_the_log_can_be_read_before_the_forked_process_has_opened_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path, monkeypatch, "import os, signal\nos.open = lambda *_: signal.pause()") as server:
        child = server.spawn(["--version"], tmp_path / "log")
        assert (tmp_path / "log").read_text() == ""
        child.kill()
        assert child.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_forked_process_runs_the_commands_of_pochade(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(tmp_path, monkeypatch) as server:
        assert server.spawn(["--version"], tmp_path / "log").wait(PATIENCE_S) == 0
        assert server.spawn(["no-such-command"], tmp_path / "wrong").wait(PATIENCE_S) == 2
    assert "pochade" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("how", [ForkedChild.terminate, ForkedChild.kill])
def test_a_forked_process_is_ended_by_a_signal(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, how: object
) -> None:
    with started(tmp_path, monkeypatch, WAITING) as server:
        child = server.spawn(["wait"], tmp_path / "log")
        wait_for(tmp_path / "log", "here")
        assert child.poll() is None
        how(child)  # type: ignore[operator]
        assert child.wait(PATIENCE_S) in (-signal.SIGTERM, -signal.SIGKILL)
        child.kill()  # nobody: its pid may be another's


def test_forked_processes_die_with_their_server_even_by_kill_9(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path, monkeypatch, WAITING) as server:
        child = server.spawn(["wait"], tmp_path / "log")
        wait_for(tmp_path / "log", "here")
        handle = os.pidfd_open(child.pid)
        assert server._child is not None
        server._child.kill()
        assert has_ended(handle, timeout_ms=round(PATIENCE_S * 1000))
        assert child.wait(PATIENCE_S) == -signal.SIGTERM
        with pytest.raises(ForkFailed):
            server.spawn(["wait"], tmp_path / "log")


def test_a_server_that_died_is_started_anew_by_the_next_process(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in module(tmp_path, WAITING).items():
        monkeypatch.setenv(name, value)
    server = LastingForkServer(lambda: ["the_module"], tmp_path / "server.log")
    first = server.spawn(["wait"], tmp_path / "log")
    wait_for(tmp_path / "log", "here wait")
    os.kill(psutil.Process(first.pid).ppid(), signal.SIGKILL)
    assert first.wait(PATIENCE_S) == -signal.SIGTERM
    assert server.spawn(["3"], tmp_path / "log").wait(PATIENCE_S) == 3
    server.close()
    server.close()


def test_a_server_whose_imports_started_a_thread_forks_nothing(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import threading; threading.Thread(target=threading.Event().wait, name='lurking', daemon=True).start()"
    with (
        started(tmp_path, monkeypatch, text) as server,
        pytest.raises(ForkFailed, match=r"started threads \(.*lurking"),
    ):
        server.spawn(["--version"], tmp_path / "log")


def test_a_module_that_cannot_be_imported_is_told_with_the_log(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ForkFailed, match=r"(?s)ended before it was ready.*No module named 'nobody_has_this'"):
        started(tmp_path, monkeypatch, "import nobody_has_this").start()


def test_a_server_that_is_not_ready_in_time_says_how_long_was_waited(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forkserver, "START_TIMEOUT_S", 0.01)
    (tmp_path / "never_ready.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(ForkFailed, match=r"not ready within 0\.01 s: the machine may be too busy"):
        ForkServer(["never_ready"], tmp_path / "server.log").start()


def test_forked_processes_draw_other_random_numbers(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = WAITING.replace(
        'print("here"', 'import random, numpy; print(random.random(), numpy.random.random()) ; print("here"'
    )
    with started(
        tmp_path, monkeypatch, "import random, numpy; random.seed(1); numpy.random.seed(1)\n" + text
    ) as server:
        for n in range(2):
            server.spawn(["0"], tmp_path / f"{n}.log").wait(PATIENCE_S)
    first, second = ((tmp_path / f"{n}.log").read_text().split()[:2] for n in range(2))
    assert not set(first) & set(second)


def test_a_detached_process_goes_on_when_its_server_ends_in_a_session_of_its_own(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path, monkeypatch, WAITING) as server:
        detached = server.spawn(["wait"], tmp_path / "detached", is_detached=True)
        bound = server.spawn(["wait"], tmp_path / "bound")
        wait_for(tmp_path / "detached", "here")
        wait_for(tmp_path / "bound", "here")
        ends = os.pidfd_open(bound.pid)
    try:
        assert has_ended(ends, round(1000 * PATIENCE_S))
        assert os.getsid(detached.pid) == detached.pid
    finally:
        os.kill(detached.pid, signal.SIGKILL)

"""A process keeps its roles running until it is told to stop."""

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from agents.runtime import process
from agents.runtime.process import Run, keep_running, run_process
from streams import metrics
from tests.patience import PATIENCE_S


def restarts(role: str) -> float:
    return metrics.RESTARTS.labels(role)._value.get()


def test_a_role_that_raises_begins_again_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "BACKOFF_S", 0.0)
    runs, stopping, before = [], threading.Event(), restarts("test-raises")

    def run(stopping: threading.Event) -> None:
        runs.append(1)
        if len(runs) == 3:
            stopping.set()
            return
        raise KeyError("broken")

    keep_running("test-raises", run, stopping)
    assert len(runs) == 3
    assert restarts("test-raises") == before + 2


def test_a_role_that_fails_is_not_begun_again_after_the_signal_to_stop() -> None:
    runs, stopping = [], threading.Event()

    def run(stopping: threading.Event) -> None:
        runs.append(1)
        stopping.set()
        raise KeyError("broken")

    keep_running("test-stopped", run, stopping)
    assert runs == [1]


def run_until_signalled(role: Run, on_stop: Callable[[], None]) -> None:
    """Runs the role as `worker`, which is asked to stop once it has begun."""
    begun = threading.Event()

    def worker(stopping: threading.Event) -> None:
        begun.set()
        role(stopping)

    # the signal may come before the loop listens: ask until it has been heard
    def sends(stopping: threading.Event) -> None:
        assert begun.wait(PATIENCE_S)
        while not stopping.wait(0.05):
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: None)  # until the loop has put its own there
    try:
        run_process({"worker": worker, "sender": sends}, [], on_stop)
    finally:
        signal.signal(signal.SIGTERM, before)
        gc.unfreeze()


def test_a_signal_stops_every_role_and_waits_for_the_work_in_hand() -> None:
    order: list[str] = []

    def worker(stopping: threading.Event) -> None:
        assert stopping.wait(PATIENCE_S)
        order.append("finished")

    run_until_signalled(worker, lambda: order.append("told"))
    assert order == ["told", "finished"]
    assert not [t for t in threading.enumerate() if t.name in {"worker", "sender"}]


def test_what_was_loaded_before_the_roles_begin_is_not_collected_again_and_again() -> None:
    frozen: list[int] = []
    run_until_signalled(lambda _: frozen.append(gc.get_freeze_count()), lambda: None)
    assert frozen[0] > 1000


CRASHED_HOST = """
import asyncio, os, types
from agents import running
class App:
    conf, crash_reason = types.SimpleNamespace(id="app"), KeyError("broken")
    async def start(self): ...
    async def wait_until_stopped(self): ...
    async def stop(self):
        os.write(1, b"stopped\\n")
        await asyncio.sleep(600)  # as Faust does for what is still in hand
def other(stopping):
    stopping.wait()
    os.write(1, b"other stopped\\n")
running.run_process({"other": other}, [types.SimpleNamespace(app=App())], lambda: None)
"""  # each writes its line in one call: they stop at the same time


def test_a_stream_role_that_crashes_ends_the_process_at_once_with_what_it_died_of() -> None:
    done = subprocess.run([sys.executable, "-c", CRASHED_HOST], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == process.CRASHED
    assert "stopped unasked: KeyError('broken')" in done.stderr
    assert not done.stdout  # nobody was waited for

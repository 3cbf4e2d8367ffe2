"""A process keeps its roles running until it is told to stop."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from agents import running
from agents.running import keep_running, run_process
from streams import metrics


def restarts(role: str) -> float:
    return metrics.RESTARTS.labels(role)._value.get()


def test_a_role_that_raises_begins_again_and_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "BACKOFF_S", 0.0)
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


def test_a_signal_stops_every_role_and_waits_for_the_work_in_hand() -> None:
    order: list[str] = []
    begun = threading.Barrier(2)

    def worker(stopping: threading.Event) -> None:
        begun.wait(5)
        assert stopping.wait(10)
        order.append("finished")

    before = signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, lambda *_: None)  # until the loop has put its own there
    try:
        # the signal may come before the loop listens: ask until it has been heard
        def sends(stopping: threading.Event) -> None:
            begun.wait(5)
            while not stopping.wait(0.05):
                os.kill(os.getpid(), signal.SIGTERM)

        run_process({"worker": worker, "sender": sends}, [], lambda: order.append("told"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert order == ["told", "finished"]
    assert not [t for t in threading.enumerate() if t.name in {"worker", "sender"}]


CRASHED_HOST = """
import asyncio, os, types
from agents import running
class App:
    conf, crash_reason = types.SimpleNamespace(id="app"), KeyError("broken")
    async def start(self): ...
    async def wait_until_stopped(self): ...
    async def stop(self): os.write(1, b"stopped\\n")
def other(stopping):
    stopping.wait()
    os.write(1, b"other stopped\\n")
running.run_process({"other": other}, [types.SimpleNamespace(app=App())], lambda: None)
"""  # each writes its line in one call: they stop at the same time


def test_a_stream_role_that_crashes_ends_the_process_with_what_it_died_of() -> None:
    done = subprocess.run([sys.executable, "-c", CRASHED_HOST], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "stopped unasked: KeyError('broken')" in done.stderr
    assert sorted(done.stdout.splitlines()) == ["other stopped", "stopped"]

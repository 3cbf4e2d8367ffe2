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

        run_process({"worker": worker, "sender": sends}, [])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert order == ["finished"]
    assert not [t for t in threading.enumerate() if t.name in {"worker", "sender"}]


STUCK = """
import os, signal, threading
from agents import running
running.STOP_S = 0.2
def stuck(stopping):
    while not stopping.wait(0.05):
        os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()
signal.signal(signal.SIGTERM, lambda *_: None)
running.run_process({"stuck-role": stuck}, [])
"""


def test_a_role_that_does_not_stop_is_named_and_the_process_ends_with_a_status() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == running.STUCK
    assert "stuck-role did not stop" in done.stderr


STUCK_HOST = """
import asyncio, os, signal, types
from agents import running
running.HOST_STOP_S = 0.2
class App:
    conf = types.SimpleNamespace(id="app")
    async def start(self):
        os.kill(os.getpid(), signal.SIGTERM)
    async def wait_until_stopped(self):
        await asyncio.Event().wait()
    stop = wait_until_stopped  # as a router that holds a request and waits for the first plan
running.run_process({}, [types.SimpleNamespace(app=App())])
"""


def test_a_stream_role_that_waits_for_ever_does_not_keep_the_process_from_ending() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK_HOST], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == running.STUCK
    assert "stream roles did not stop" in done.stderr


CRASHED_HOST = """
import asyncio, types
from agents import running
class App:
    conf, crash_reason = types.SimpleNamespace(id="app"), KeyError("broken")
    async def start(self): ...
    async def wait_until_stopped(self): ...
    async def stop(self): print("stopped")
def other(stopping):
    stopping.wait()
    print("other stopped")
running.run_process({"other": other}, [types.SimpleNamespace(app=App())])
"""


def test_a_stream_role_that_crashes_ends_the_process_with_what_it_died_of() -> None:
    done = subprocess.run([sys.executable, "-c", CRASHED_HOST], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "stopped unasked: KeyError('broken')" in done.stderr
    assert done.stdout.splitlines() == ["stopped", "other stopped"]

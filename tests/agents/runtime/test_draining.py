"""The time to drain: it begins with the signal, covers everything, and what is not done by then is cut short."""

import subprocess
import sys
import threading

from agents.runtime.draining import CUT_SHORT, Drain
from tests.patience import PATIENCE_S

BEFORE = (
    "import asyncio, os, signal, threading, types\n"
    "from agents.runtime import process\n"
    "from agents.runtime.draining import Drain\n"
)


def test_work_that_ends_in_time_is_not_cut_short() -> None:
    ended: list[int] = []
    with Drain(60, ended.append) as drain:
        drain.begin()
    assert ended == []
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_a_process_that_was_never_told_to_stop_has_all_the_time() -> None:
    with Drain(0.001, lambda _: None):
        assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_work_that_takes_longer_is_cut_short_however_often_the_signal_comes() -> None:
    ended = threading.Event()
    with Drain(0.05, lambda status: ended.set() if status == CUT_SHORT else None) as drain:
        for _ in range(3):
            drain.begin()
        assert ended.wait(PATIENCE_S)


def run(script: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + script], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


def test_a_role_that_does_not_stop_is_named_and_the_process_ends_with_a_status() -> None:
    status, said = run("""
def stuck(stopping):
    while not stopping.wait(0.05):
        os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()
signal.signal(signal.SIGTERM, lambda *_: None)
with Drain(0.2) as drain:
    process.run_process({"stuck-role": stuck}, [], drain.begin)
""")
    assert status == CUT_SHORT
    assert "stuck-role did not finish within drain_s = 0.2" in said
    assert "in stuck" in said, "where it hangs is told"


def test_a_stream_role_that_waits_for_ever_does_not_keep_the_process_from_ending() -> None:
    status, said = run("""
class App:
    conf = types.SimpleNamespace(id="app")
    async def start(self):
        os.kill(os.getpid(), signal.SIGTERM)
    async def wait_until_stopped(self):
        await asyncio.Event().wait()
    stop = wait_until_stopped  # as a router that holds a request and waits for the first plan
with Drain(0.2) as drain:
    process.run_process({}, [types.SimpleNamespace(app=App())], drain.begin)
""")
    assert status == CUT_SHORT
    assert "the stream roles or a client did not finish" in said


def test_a_client_that_hangs_when_it_is_closed_is_cut_short_too() -> None:
    status, _ = run("""
def told(stopping):
    while not stopping.wait(0.05):
        os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, lambda *_: None)
with Drain(0.2) as drain:
    process.run_process({"told": told}, [], drain.begin)
    threading.Event().wait()
""")
    assert status == CUT_SHORT

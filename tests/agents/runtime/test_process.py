"""A process keeps its roles running until it is asked to stop, and has a limited time from then to its end."""

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from agents.runtime import process
from agents.runtime.process import CRASHED, CUT_SHORT, Drain, Run, keep_running, run_process
from schemas.errors import PochadeError, Unknown
from streams import metrics
from streams.processes import freed_memory, signals, watchdog
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


@pytest.mark.parametrize(
    ("error", "is_traced"),
    [
        (KafkaException(KafkaError(KafkaError._TRANSPORT, "the broker is away")), False),
        (PochadeError("the broker is away"), False),
        (KeyError("the broker is away"), True),
    ],
)
def test_an_error_that_says_all_there_is_takes_one_line_and_a_fault_of_the_code_its_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: Exception, *, is_traced: bool
) -> None:
    monkeypatch.setattr(process, "BACKOFF_S", 0.0)

    def run(stopping: threading.Event) -> None:
        stopping.set()
        raise error

    keep_running("sweeper", run, threading.Event())
    (line,) = caplog.records
    assert line.getMessage().startswith("sweeper failed: ")
    assert "the broker is away" in line.getMessage()
    assert bool(line.exc_info) == is_traced


def test_a_name_that_nobody_knows_ends_the_process_with_its_message_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends: list[int] = []

    def run(_stopping: threading.Event) -> None:
        raise Unknown("engine", "foo", ["profile"])

    keep_running("worker", run, threading.Event(), ends.append)
    assert ends == [CRASHED]
    (line,) = caplog.records
    assert line.exc_info is None
    assert "worker cannot run: unknown engine 'foo': known are profile" in line.getMessage()


def test_a_role_that_fails_is_not_begun_again_after_the_signal_to_stop() -> None:
    runs, stopping = [], threading.Event()

    def run(stopping: threading.Event) -> None:
        runs.append(1)
        stopping.set()
        raise KeyError("broken")

    keep_running("test-stopped", run, stopping)
    assert runs == [1]


def run_until_signalled(role: Run, on_stop: Callable[[], None], number: signal.Signals = signal.SIGTERM) -> None:
    """Runs the role as `worker`, which is asked to stop once it has begun."""
    begun, sending, heard = threading.Event(), threading.Lock(), threading.Event()

    def worker(stopping: threading.Event) -> None:
        begun.set()
        role(stopping)

    # the signal may come before the loop listens: ask until it has been heard
    def sends(stopping: threading.Event) -> None:
        assert begun.wait(PATIENCE_S)
        while not stopping.wait(0.05):
            with sending:
                if not heard.is_set():
                    os.kill(os.getpid(), number)

    def stops() -> None:
        with sending:  # no signal after this: the loop takes its handler away when it ends
            heard.set()
        on_stop()

    before = signal.getsignal(number)
    signal.signal(number, lambda *_: None)  # until the loop has put its own there
    try:
        run_process({"worker": worker, "sender": sends}, [], stops)
    finally:
        signal.signal(number, before)
        gc.unfreeze()


def test_a_process_gives_freed_memory_back_while_its_roles_run_and_ends_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gives, has_ended = threading.Event(), threading.Event()

    def give_back_until(stopping: threading.Event) -> None:
        gives.set()
        if stopping.wait(PATIENCE_S):
            has_ended.set()

    def role(stopping: threading.Event) -> None:
        assert gives.wait(PATIENCE_S)
        stopping.wait(PATIENCE_S)

    monkeypatch.setattr(freed_memory, "give_back_until", give_back_until)
    run_until_signalled(role, lambda: None)
    assert has_ended.is_set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_every_role_and_waits_for_the_work_in_hand(number: signal.Signals) -> None:
    order: list[str] = []

    def worker(stopping: threading.Event) -> None:
        assert stopping.wait(PATIENCE_S)
        order.append("finished")

    run_until_signalled(worker, lambda: order.append("told"), number)
    assert order == ["told", "finished"]
    assert not [t for t in threading.enumerate() if t.name in {"worker", "sender"}]


def test_a_terminal_that_closes_ends_no_process_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signals.ending() == (signal.SIGTERM, signal.SIGINT)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_was_loaded_before_the_roles_begin_is_not_collected_again_and_again() -> None:
    frozen: list[int] = []
    run_until_signalled(lambda _: frozen.append(gc.get_freeze_count()), lambda: None)
    assert frozen[0] > 1000


CRASHED_HOST = """
import asyncio, os, types
from agents.runtime import process
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
process.run_process({"other": other}, [types.SimpleNamespace(app=App())], lambda: None)
"""  # each writes its line in one call: they stop at the same time


def test_a_stream_role_that_crashes_ends_the_process_at_once_with_what_it_died_of() -> None:
    done = subprocess.run([sys.executable, "-c", CRASHED_HOST], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == process.CRASHED
    assert "stopped unasked: KeyError('broken')" in done.stderr
    assert not done.stdout  # nobody was waited for


# the time to drain: it begins with the signal, covers everything, and what is not done by then is cut short

BEFORE = (
    "import asyncio, os, signal, threading, types\n"
    "from agents.runtime import process\n"
    "from agents.runtime.process import Drain\n"
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
    assert "stuck-role did not finish within shutdown_timeout_s = 0.2" in said
    assert "in stuck" in said, "where it hangs is reported"


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


def test_a_thread_that_holds_the_lock_of_logging_for_ever_is_cut_short_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LAST_WORDS_S", 0.01)
    ended, handler = threading.Event(), logging.StreamHandler()
    process.log.addHandler(handler)
    handler.acquire()
    try:
        with Drain(0.05, lambda _status: ended.set()) as drain:
            drain.begin()
            assert ended.wait(PATIENCE_S)
    finally:
        handler.release()
        process.log.removeHandler(handler)


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

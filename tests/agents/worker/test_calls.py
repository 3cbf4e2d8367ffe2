"""Calls in the background: what hangs keeps its thread, and nobody else."""

import threading

import pytest

from agents.worker.calls import BackgroundCalls
from tests.patience import PATIENCE_S


def test_results_and_errors_come_back() -> None:
    calls = BackgroundCalls(2, "test")
    assert calls.submit(lambda: 7).result(PATIENCE_S) == 7
    with pytest.raises(KeyError):
        calls.submit(lambda: {}["x"]).result(PATIENCE_S)
    calls.close()


def test_what_was_cancelled_while_all_threads_hung_is_never_called() -> None:
    calls, ends, made = BackgroundCalls(1, "test"), threading.Event(), list[int]()
    hanging = calls.submit(ends.wait)
    waiting = calls.submit(lambda: made.append(1))
    with pytest.raises(TimeoutError):
        waiting.result(0.01)
    assert waiting.cancel()
    ends.set()
    assert hanging.result(PATIENCE_S)
    calls.submit(lambda: made.append(2)).result(PATIENCE_S)
    assert made == [2]


def test_a_hanging_thread_does_not_hold_up_the_end_of_the_process() -> None:
    calls = BackgroundCalls(1, "hangs")
    ends = threading.Event()
    calls.submit(ends.wait)
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "hangs")
    ends.set()

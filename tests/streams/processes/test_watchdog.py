"""The watchdog bites a job that hangs, and no other."""

import logging
import threading

import pytest

from streams.processes import watchdog
from streams.processes.watchdog import Watchdog
from tests.patience import PATIENCE_S


def test_a_job_longer_than_the_limit_is_bitten() -> None:
    bitten = threading.Event()
    Watchdog(0.01, bitten.set).begin()
    assert bitten.wait(PATIENCE_S)


@pytest.mark.parametrize("jobs", [1, 3])
def test_jobs_that_end_in_time_are_not(jobs: int) -> None:
    bitten = threading.Event()
    dog = Watchdog(1, bitten.set)
    for _ in range(jobs):
        dog.begin()
        watching = dog._watching
        dog.end()
        assert watching is not None
    watching.join(PATIENCE_S)
    assert not watching.is_alive()
    assert not bitten.is_set()


def test_one_thread_watches_many_jobs_and_bites_the_one_that_hangs() -> None:
    bitten = threading.Event()
    dog = Watchdog(1, bitten.set)
    threads = set()
    for _ in range(100):
        with dog:
            threads.add(dog._watching)
    assert len(threads) == 1
    dog.begin()
    assert bitten.wait(PATIENCE_S)


def test_it_tells_since_when_a_job_runs() -> None:
    dog = Watchdog(60, lambda: None)
    assert dog.since is None
    dog.begin()
    assert dog.since is not None
    dog.end()
    assert dog.since is None


def test_what_is_watched_as_a_block_is_not_bitten_after_it() -> None:
    bitten = threading.Event()
    dog = Watchdog(1, bitten.set)
    with dog:
        watching = dog._watching
    assert watching is not None
    watching.join(PATIENCE_S)
    assert (dog.since, bitten.is_set()) == (None, False)


def test_what_is_waited_for_does_not_count_and_the_limit_counts_anew_after_it() -> None:
    bitten = threading.Event()
    dog = Watchdog(1.0, bitten.set)
    with dog:
        begun = dog.since
        for _ in range(2):
            with dog.waits():
                assert not bitten.wait(1.1)
                assert not dog.is_overdue()
        assert dog.since == begun, "others see that it is at it since then"
        assert bitten.wait(PATIENCE_S)


def test_a_thread_that_holds_the_lock_of_logging_for_ever_does_not_keep_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watchdog, "LAST_WORDS_S", 0.01)
    bitten, handler = threading.Event(), logging.StreamHandler()
    watchdog.log.addHandler(handler)
    handler.acquire()
    try:
        Watchdog(0.01, bitten.set).begin()
        assert bitten.wait(PATIENCE_S)
    finally:
        handler.release()
        watchdog.log.removeHandler(handler)

"""The watchdog bites a job that hangs, and no other."""

import threading

from streams.watchdog import Watchdog


def test_a_job_longer_than_the_limit_is_bitten() -> None:
    bitten = threading.Event()
    Watchdog(0.01, bitten.set).begin()
    assert bitten.wait(5)


def test_a_job_that_ends_in_time_is_not() -> None:
    bitten = threading.Event()
    dog = Watchdog(0.2, bitten.set)
    dog.begin()
    timer = dog._armed
    dog.end()
    assert timer is not None
    timer.join(5)
    assert not timer.is_alive()
    assert not bitten.is_set()


def test_each_job_has_its_own_limit() -> None:
    bitten = threading.Event()
    dog = Watchdog(60, bitten.set)
    timers = []
    for _ in range(3):
        dog.begin()
        timers.append(dog._armed)
        dog.end()
    for timer in timers:
        assert timer is not None
        timer.join(5)
        assert not timer.is_alive()
    assert not bitten.is_set()


def test_it_tells_since_when_a_job_runs() -> None:
    dog = Watchdog(60, lambda: None)
    assert dog.since is None
    dog.begin()
    assert dog.since is not None
    dog.end()
    assert dog.since is None


def test_what_is_watched_as_a_block_is_not_bitten_after_it() -> None:
    bitten = threading.Event()
    dog = Watchdog(60, bitten.set)
    with dog:
        timer = dog._armed
    assert timer is not None
    timer.join(5)
    assert (dog.since, bitten.is_set()) == (None, False)

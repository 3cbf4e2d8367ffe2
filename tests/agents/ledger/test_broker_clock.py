"""The broker's time, as the ledger knows it."""

import pytest

from agents.ledger.broker_clock import BrokerClock, ClockOff
from schemas.topics import DAY_MS
from tests.builders import NOW_MS


def test_deadlines_pass_by_the_brokers_clock_and_a_clock_that_jumps_is_found_out() -> None:
    wall, steady = [NOW_MS + 20_000], [5]
    clock = BrokerClock(lambda: wall[0], lambda: steady[0])
    assert clock.now_ms() == NOW_MS + 20_000, "none has been seen yet"
    clock.observe(NOW_MS)
    steady[0] += 1000
    assert clock.now_ms() == NOW_MS + 1000
    wall[0] += DAY_MS
    with pytest.raises(ClockOff):
        clock.check()

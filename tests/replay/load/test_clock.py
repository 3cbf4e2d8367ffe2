import numpy as np

from replay.load.clock import TraceClock

ARRIVALS = np.array([0.0, 100.0, 200.0, 300.0])


def test_time_of_the_trace_runs_with_the_epoch() -> None:
    clock = TraceClock(ARRIVALS, {number: 5000 + 100 * number for number in range(4)})
    assert [clock(epoch) for epoch in (4000, 5000, 5050, 5300, 9000)] == [-1000, 0, 50, 300, 4000]


def test_a_pause_between_two_sessions_takes_no_time() -> None:
    clock = TraceClock(ARRIVALS, {0: 5000, 1: 5100, 2: 65_000, 3: 65_100})
    assert [clock(epoch) for epoch in (5150, 30_000, 65_000, 65_050)] == [150, 200, 200, 250]


def test_time_never_runs_back() -> None:
    clock = TraceClock(ARRIVALS, {0: 5000, 1: 4990, 2: 5300, 3: 5305})
    times = [clock(epoch) for epoch in range(4980, 5400)]
    assert times == sorted(times)

"""The order in which workers are free, kept up to date, says what a look at every worker says."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.serving.dispatch.dispatch import KINDS, pick
from planner.serving.dispatch.free_times import FreeTimes
from tests.planner.serving.workers import plain_pick

# few different times, so that workers tie; a step: (place, its work, ms that pass before it, rarely backwards)
STEPS = st.tuples(
    st.integers(0, 6), st.sampled_from([0.0, 10.0, 10.0, 35.5, 400.0]), st.sampled_from([0, 0, 1, 10, -15])
)


@given(
    st.lists(st.sampled_from([0.0, 5.0, 10.0]), max_size=7),
    st.lists(STEPS, max_size=60),
    st.sampled_from(sorted(KINDS)),
    st.sampled_from([0.0, 20.0]),
)
def test_the_choice_is_that_of_a_look_at_every_worker(
    begin: list[float], steps: list[tuple[int, float, int]], kind: str, ahead_ms: float
) -> None:
    free, now_ms = FreeTimes(begin), 3.0
    for number, (place, work_ms, later_ms) in enumerate(steps):
        now_ms += later_ms
        if place < len(begin):
            free.set(place, now_ms + work_ms)
        times = list(free)
        assert free.wait_ms(now_ms) == (max(0.0, min(times) - now_ms) if times else math.inf)
        chosen = pick(kind, free, now_ms, f"r-{number}", number, ahead_ms)
        assert chosen == plain_pick(kind, times, now_ms, f"r-{number}", number, ahead_ms)
        if chosen is not None:  # the job goes there
            free.set(chosen, max(free[chosen], now_ms) + 10.0)


def test_workers_that_tie_are_all_offered_in_order_and_stay() -> None:
    free = FreeTimes([30.0, 20.0, 20.0, 25.0, 20.0])
    assert free.idle(10.0) == []
    assert free.first() == free.first() == [1, 2, 4]
    assert free.idle(20.0) == [1, 2, 4]
    assert free.first() == [3], "the first of those that are busy"


def test_a_time_that_a_worker_had_before_counts_once() -> None:
    free = FreeTimes([100.0, 200.0])
    for at_ms in (100.0, 150.0, 100.0, 150.0, 100.0):
        free.set(0, at_ms)
    assert free.first() == [0]
    assert (free.first_ms(), free.wait_ms(60.0)) == (100.0, 40.0)


def test_memory_is_bounded_while_nobody_is_idle() -> None:
    free = FreeTimes([1e9] * 10)
    for number in range(5000):
        free.set(number % 10, 1e9 + number)
    assert len(free._busy) < 100


@pytest.mark.parametrize("kind", ["least-work", "pull"])
def test_a_choice_among_many_busy_workers_reads_few_of_their_times(kind: str) -> None:
    class Counted(list[float]):
        reads = 0

        def __getitem__(self, place):  # type: ignore[no-untyped-def,override]
            Counted.reads += 1
            return super().__getitem__(place)

    free = FreeTimes(float(1000 + place) for place in range(1000))
    free._at_ms = Counted(free._at_ms)
    for number in range(200):
        place = pick(kind, free, 1.0, f"r-{number}", number, most_ahead_ms=5000.0)
        assert place is not None
        free.set(place, free[place] + 500.0)
    assert Counted.reads < 200 * 20

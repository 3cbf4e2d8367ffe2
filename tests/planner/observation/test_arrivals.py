"""Arrivals by the second, and clocks that jump back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.observation.arrivals import counts_per_second, steady_ms
from tests.builders import NOW_MS


def test_arrivals_are_counted_by_the_second_that_ends_with_now() -> None:
    arrivals = [NOW_MS - 3000, NOW_MS - 2999, NOW_MS - 1000, NOW_MS - 999, NOW_MS, NOW_MS + 1]
    assert counts_per_second(arrivals, NOW_MS, 3) == (1, 1, 2)
    assert counts_per_second([], NOW_MS, 2) == (0, 0)


@settings(max_examples=40)
@given(st.lists(st.integers(-70_000, 5_000), max_size=20), st.integers(1, 60))
def test_every_arrival_of_the_window_is_counted_once(offsets: list[int], seconds: int) -> None:
    counts = counts_per_second([NOW_MS + offset for offset in offsets], NOW_MS, seconds)
    assert len(counts) == seconds
    assert sum(counts) == sum(-1000 * seconds < offset <= 0 for offset in offsets)


def test_time_stands_still_while_a_clock_makes_up_for_a_small_jump_back() -> None:
    assert steady_ms(NOW_MS - 400, NOW_MS, most_ms=30_000) == NOW_MS
    assert steady_ms(NOW_MS + 1, NOW_MS, most_ms=30_000) == NOW_MS + 1


def test_after_a_long_jump_back_time_begins_anew_and_what_was_counted_lies_in_its_future() -> None:
    now = steady_ms(NOW_MS - 3_600_000, NOW_MS, most_ms=30_000)
    assert now == NOW_MS - 3_600_000
    assert counts_per_second([NOW_MS - 5, now - 5], now, 1) == (1,)

"""Deadlines of lookups: never more than 100 ms, nor than a share of what a hit saves."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reuse.lookups.deadline import DeadlineRule, lookup_deadline_ms, saved_ms


@given(st.floats(0, 1e6), st.floats(0, 1))
def test_a_lookup_never_takes_more_than_it_may(run_ms: float, share: float) -> None:
    limit = lookup_deadline_ms(run_ms, share)
    if limit is not None:
        assert limit <= 100
        assert limit <= 0.3 * run_ms * share * (1 + 1e-9)  # whatever the order of the products


def test_a_slow_model_waits_a_tenth_of_a_second_and_a_quick_one_a_share_of_its_gain() -> None:
    assert lookup_deadline_ms(4200, 0.5) == 100
    assert lookup_deadline_ms(127, 0.5) == pytest.approx(19.05)


def test_where_there_is_nothing_to_gain_nobody_is_asked() -> None:
    assert lookup_deadline_ms(127, 0.0) is None
    assert lookup_deadline_ms(5, 0.5) is None
    assert lookup_deadline_ms(math.nan, 0.5) is None
    assert lookup_deadline_ms(-100, 0.5) is None


def test_a_plan_may_ask_for_tighter_limits() -> None:
    assert lookup_deadline_ms(1000, 0.5, DeadlineRule(max_ms=20, share=0.1)) == 20


def test_a_run_time_that_is_no_number_saves_nothing() -> None:
    assert saved_ms(math.nan, 0.5) == 0.0

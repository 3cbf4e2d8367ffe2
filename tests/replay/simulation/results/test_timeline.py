"""Counts by interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.simulation.results.timeline import Timeline, width_s


@given(st.floats(10, 400 * 86_400))
def test_a_page_has_100_to_300_intervals_whatever_the_length_of_the_trace(seconds: float) -> None:
    assert 100 <= seconds / width_s(seconds) < 300


def test_a_short_trace_has_fewer_intervals_but_none_too_narrow() -> None:
    assert width_s(3) == width_s(0) == 0.1
    assert Timeline(np.array([0.0])).count == 1


def test_requests_count_in_the_interval_in_which_they_arrived() -> None:
    timeline = Timeline(np.array([0.0, 1999.0, 2000.0, 599_000.0]))
    assert timeline.width_ms == 2000
    timeline.completed(1999.0, 9000.0, "light", is_late=True, quality=0.5)
    timeline.completed(2000.0, 2100.0, "heavy", is_late=False, quality=None)
    assert timeline.arrived[:2].tolist() == [2, 1]
    assert timeline.in_time[:2] == [0, 1]
    assert timeline.levels[0] == {"light": 1}
    assert timeline.quality_sum[:2] == [0.5, 0.0]
    assert timeline.quality_count[:2] == [1, 0]


def test_the_last_arrival_has_a_place_and_what_comes_after_it_is_not_drawn() -> None:
    timeline = Timeline(np.array([0.0, 29_999.9]))
    assert timeline.count == 300
    timeline.completed(29_999.9, 31_000.0, "light", is_late=False, quality=1.0)
    timeline.sampled(29_950.0, 40.0)
    timeline.sampled(30_000.0, 7000.0)
    timeline.sampled(-500.0, 7000.0)
    assert sum(timeline.in_time) == 1
    assert sum(timeline.queued_ms) == pytest.approx(40.0)


def test_queues_are_looked_at_often_enough_for_every_interval() -> None:
    assert Timeline(np.array([0.0, 20_000.0])).sample_ms == 100
    assert Timeline(np.array([0.0, 900_000.0])).sample_ms == 1000

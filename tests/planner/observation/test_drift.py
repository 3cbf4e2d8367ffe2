"""When images count as worse than before: after a real fall, and not by chance."""

import random

import pytest

from planner.observation.drift import DriftWatch

WINDOW = 500


def alarms(draws: random.Random, means: list[float], watch: DriftWatch) -> list[int]:
    """The windows that end with an alarm; scores of window i have the mean i."""
    found = []
    for window, mean in enumerate(means):
        drifts = [watch.add(draws.gauss(mean, 1)) for _ in range(WINDOW)]
        found += [window] * sum(drift is not None for drift in drifts)
    return found


def test_scores_that_stay_as_they_are_raise_no_alarm() -> None:
    draws = random.Random(1)
    assert sum(len(alarms(draws, [0.0] * 20, DriftWatch(WINDOW))) for _ in range(10)) == 0


def test_a_fall_raises_one_alarm_within_a_window_of_its_begin() -> None:
    draws = random.Random(2)
    for _ in range(20):
        assert alarms(draws, [0.0] * 6 + [-0.5] * 6, DriftWatch(WINDOW)) == [6]


def test_a_rise_raises_none_and_the_fall_back_to_it_does() -> None:
    draws = random.Random(3)
    assert alarms(draws, [0.0] * 4 + [1.0] * 4 + [0.0] * 4, DriftWatch(WINDOW, previous=4)) == [8]


def test_an_alarm_says_what_fell() -> None:
    watch = DriftWatch(4, error=0.2)
    assert [watch.add(score) for score in (0.8, 0.9, 0.8, 0.9, 0.1, 0.2, 0.1)] == [None] * 7
    drift = watch.add(0.2)
    assert drift is not None
    assert (drift.median, drift.before) == pytest.approx((0.15, 0.85))
    assert drift.in_words() == "the median score of the last 4 images is 0.15, before 0.85"


def test_scores_that_are_all_equal_are_no_fall() -> None:
    watch = DriftWatch(10, error=0.2)
    assert [watch.add(0.5) for _ in range(100)] == [None] * 100

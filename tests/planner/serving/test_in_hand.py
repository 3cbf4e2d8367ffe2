"""The work in hand: what is late is not done, and what hangs is not waited for."""

import pytest

from planner.serving.in_hand import LEAST_MS, TIMES, hangs, left_ms

RUN_MS = 200.0
TOO_LATE_MS = TIMES * RUN_MS + LEAST_MS


def test_work_in_time_has_the_rest_before_it() -> None:
    assert left_ms(RUN_MS, 50.0) == 150.0


def test_late_work_is_expected_to_be_late_by_as_much_again() -> None:
    assert left_ms(RUN_MS, 500.0) == 300.0


@pytest.mark.parametrize(("elapsed_ms", "does"), [(RUN_MS, False), (TOO_LATE_MS, False), (TOO_LATE_MS + 1, True)])
def test_work_hangs_when_it_is_later_than_any_slow_machine_makes_it(elapsed_ms: float, does: bool) -> None:
    assert hangs(RUN_MS, elapsed_ms) is does


def test_work_that_hangs_for_an_hour_is_no_hour_of_work() -> None:
    assert left_ms(RUN_MS, 3_600_000.0) == RUN_MS

"""How a worker takes jobs."""

import pytest

from planner.serving.batching import WINDOW_MS, alike, paced, window
from tests.builders import a_variant


@pytest.mark.parametrize(("call_ms", "jobs"), [(20.0, 10), (150.0, 1), (WINDOW_MS / 2, 2), (5000.0, 1)])
def test_a_window_holds_200_ms_of_calls_and_one_at_least(call_ms: float, jobs: int) -> None:
    assert window(a_variant(latency_ms={1: call_ms}), 1) == jobs


def test_a_window_of_batches_holds_whole_ones() -> None:
    assert window(a_variant(latency_ms={1: 20.0, 4: 44.0}), 4) == 4 * 4


def test_jobs_that_are_painted_alike_share_a_call_in_the_order_of_the_first() -> None:
    assert alike([3, 0, 3, 5, 0], lambda step: step) == [[3, 3], [0, 0], [5]]
    assert alike([], lambda step: step) == []


def test_the_pace_follows_what_jobs_take_of_late() -> None:
    pace = 1.0
    for _ in range(200):
        pace = paced(pace, 80.0, 200.0)
    assert pace == pytest.approx(0.4, abs=1e-3)
    assert paced(1.0, 200.0, 200.0) == 1.0

"""What is done about a stored image that cannot be read: by its age, its deadline, and how often its job was sent."""

import math

import pytest

from planner.serving.unreadable import REREAD_MS, Then, elsewhere, pause_ms, then


@pytest.mark.parametrize(
    ("age_ms", "left_ms", "sends", "max_attempts", "expected"),
    [
        (0, math.inf, 1, 3, Then.READ_AGAIN),
        (59_000, math.inf, 2, 3, Then.READ_AGAIN),
        (61_000, math.inf, 1, 3, Then.SEND_BACK),
        (61_000, math.inf, 2, 3, Then.FAIL),
        (61_000, math.inf, 1, 1, Then.FAIL),
        (5_000, 6_000, 1, 3, Then.READ_AGAIN),
        (6_000, 5_000, 1, 3, Then.SEND_BACK),
        (6_000, -1, 2, 3, Then.FAIL),
    ],
)
def test_an_image_is_read_again_for_a_minute_then_made_again_once_then_given_up(
    age_ms: float, left_ms: float, sends: int, max_attempts: int, expected: Then
) -> None:
    assert then(age_ms, left_ms, sends, max_attempts) is expected


@pytest.mark.parametrize("ahead_ms", [3 * 86_400_000, 2**62])
def test_a_time_of_storage_far_ahead_keeps_no_image_going_round(ahead_ms: float) -> None:
    assert then(-ahead_ms, math.inf, 1, 3) is Then.SEND_BACK


def test_the_pauses_of_a_minute_are_some_sixty_and_none_holds_others_up_for_long() -> None:
    age_ms, reads = 0.0, 0
    while age_ms < REREAD_MS:
        age_ms, reads = age_ms + pause_ms(age_ms), reads + 1
    assert 50 <= reads <= 80
    assert pause_ms(-(2.0**62)) == 100
    assert pause_ms(2.0**62) == 2000


def test_a_job_goes_to_the_first_free_worker_of_any_but_the_one_before_if_there_is_one() -> None:
    assert elsewhere(["a", "b", "c"], [0, 20, 10], "a") == 2
    assert elsewhere(["a", "b", "c"], [0, 20, 10], "gone") == 0
    assert elsewhere(["a"], [5], "a") == 0
    assert elsewhere([], [], "a") is None

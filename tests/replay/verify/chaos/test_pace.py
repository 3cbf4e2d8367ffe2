"""When requests are answered as quickly as before a fault."""

from replay.verify.chaos.pace import WINDOW_MS, Answered, back_after_ms, p99

FAULT_MS = 100_000


def answered(slow_until_ms: int, took_ms: int = 8000) -> list[Answered]:
    """Ten requests a second, answered in 100 ms but for those asked between the fault and a moment."""
    times = range(FAULT_MS - 30_000, FAULT_MS + 60_000, 100)
    return [Answered(at, took_ms if FAULT_MS <= at < slow_until_ms else 100) for at in times]


def test_the_slowest_of_a_hundred_is_left_out() -> None:
    assert p99([*range(1, 100), 10_000]) == 10_000
    assert p99([100] * 199 + [10_000]) == 100


def test_requests_that_were_never_slow_are_back_at_once() -> None:
    assert back_after_ms(answered(FAULT_MS), FAULT_MS, FAULT_MS + 60_000) == 0


def test_the_time_until_requests_are_quick_again_is_reported() -> None:
    assert back_after_ms(answered(FAULT_MS + 4000), FAULT_MS, FAULT_MS + 60_000) == 4000


def test_requests_that_stay_slow_are_never_back() -> None:
    assert back_after_ms(answered(FAULT_MS + 60_000), FAULT_MS, FAULT_MS + 60_000) == 60_000


def test_nothing_is_reported_where_too_few_were_asked() -> None:
    some = answered(FAULT_MS)
    assert back_after_ms([each for each in some if each.asked_ms >= FAULT_MS], FAULT_MS, FAULT_MS + 60_000) is None
    assert back_after_ms(some, FAULT_MS, FAULT_MS + WINDOW_MS - 1) is None

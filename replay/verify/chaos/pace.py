"""Measures how soon after a fault requests are answered as quickly as before it."""

from collections.abc import Sequence
from typing import NamedTuple

WINDOW_MS = 5000  # of requests that are judged together
BEFORE_MS = 20_000  # span before a fault whose requests give the usual latency
STEP_MS = 500
FEWEST = 20  # requests in a window: fewer say nothing about the slowest of a hundred
FACTOR, MORE_MS = 1.5, 500.0  # back: at most FACTOR times as slow as before, or MORE_MS slower


class Answered(NamedTuple):
    """A request that asked for nothing special."""

    asked_ms: int  # epoch
    took_ms: int  # until its result was there to be read


def p99(took_ms: Sequence[int]) -> float:
    """The time within which 99 of 100 were answered."""
    ordered = sorted(took_ms)
    return float(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))])


def back_after_ms(answered: Sequence[Answered], at_ms: float, until_ms: float) -> float | None:
    """Return the ms from a fault until the first window of requests answered as quickly as before it.

    `until_ms`: when the last request was sent. Returns None if too few requests were sent before the fault or after it;
    the time until `until_ms` if no window was as quick.
    """
    usual = [each for each in answered if each.asked_ms + each.took_ms < at_ms]  # others waited because of the fault
    before = _took(usual, at_ms - BEFORE_MS, at_ms)
    if len(before) < FEWEST or until_ms - at_ms < WINDOW_MS:
        return None
    limit_ms = max(FACTOR * p99(before), p99(before) + MORE_MS)
    from_ms = at_ms
    while from_ms + WINDOW_MS <= until_ms:
        window = _took(answered, from_ms, from_ms + WINDOW_MS)
        if len(window) >= FEWEST and p99(window) <= limit_ms:
            return from_ms - at_ms
        from_ms += STEP_MS
    return until_ms - at_ms


def _took(answered: Sequence[Answered], from_ms: float, until_ms: float) -> list[int]:
    return [each.took_ms for each in answered if from_ms <= each.asked_ms < until_ms]

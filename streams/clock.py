"""The edges' clock, whose time is passed into every decision."""

import time


def now_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000

"""The edges' clock, whose time is passed into every decision."""

import time


def now_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000

"""The edges' clock, whose time is passed into every decision, and the one form in which times are shown."""

import datetime
import time


def now_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def utc(ms: float, timespec: str = "seconds") -> str:
    """Return epoch milliseconds as `2026-11-28T03:51:05Z`; a time that no calendar has, as the number that it is."""
    try:
        moment = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")

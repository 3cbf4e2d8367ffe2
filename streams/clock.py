"""The edges' clock, whose time is passed into every decision, and the one form in which times are shown."""

import datetime
import time
from collections.abc import Callable


def _machines_ms() -> int:
    return time.time_ns() // 1_000_000


source: Callable[[], int] = _machines_ms  # another one where time is virtual (`agents/in_process/virtual_time.py`)


def now_ms() -> int:
    """Return the current time in epoch milliseconds."""
    return source()


def utc(ms: float, timespec: str = "seconds") -> str:
    """Return epoch milliseconds as `2026-11-28T03:51:05Z`; a time that no calendar has, as the number that it is."""
    try:
        moment = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")

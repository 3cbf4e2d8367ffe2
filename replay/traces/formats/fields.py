"""Parses values in text or JSON. Each function raises `Unfit` for a bad value, which is reported with file and line."""

import datetime
import math
from typing import Any, Final

from replay.traces.formats.faults import quoted

MIN_EPOCH_S: Final = 3e8  # 1979
MAX_EPOCH_S: Final = 1e10  # 2286
MAX_WHOLE: Final = 2**53  # whole numbers that a float keeps


class Unfit(ValueError):
    """A value that is not one; `kind` is what skipped lines are counted under."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def number(value: Any, what: str) -> float:
    """A finite number, from text or JSON."""
    try:
        if isinstance(value, bool) or (isinstance(value, str) and ("_" in value or not value.isascii())):
            raise ValueError  # Python would take true, 1_000 and digits of other scripts
        found = float(value)
    except (ValueError, TypeError, OverflowError):
        raise Unfit("not a number", f"not a number of {what}: {quoted(str(value))}") from None
    if not math.isfinite(found):
        raise Unfit("not finite", f"must be a finite number of {what}: got {quoted(str(value))}")
    return found


def whole(value: Any, what: str, least: int = 0) -> int:
    """A whole number of at least `least`; `4.0` is one."""
    found = number(value, what)
    if found != int(found) or not least <= found <= MAX_WHOLE:
        raise Unfit("not a whole number", f"must be a whole number of {what}, at least {least}: got {value!s:.80}")
    return int(found)


def share(value: Any, what: str) -> float:
    """A number in [0, 1]."""
    found = number(value, what)
    if not 0 <= found <= 1:
        raise Unfit("out of range", f"{what} must be in [0, 1]: got {value!s:.80}")
    return found


def since_1970_ms(value: Any) -> float:
    """Return the epoch ms of an ISO 8601 time, or of seconds or milliseconds since 1970, distinguished by size."""
    try:
        found = number(value, "seconds or milliseconds since 1970")
    except Unfit:
        return moment_ms(value)
    if MIN_EPOCH_S <= found < MAX_EPOCH_S:
        return 1000 * found
    if 1000 * MIN_EPOCH_S <= found < 1000 * MAX_EPOCH_S:
        return found
    message = f"neither seconds nor milliseconds since 1970: {quoted(str(value))}"
    raise Unfit("not a time", f"{message}; times since the start belong in arrival_ms, in milliseconds")


def formatted_ms(value: str, time_format: str) -> float:
    """Epoch ms of a time that is written in this format of `strptime`, UTC where it names no zone."""
    try:
        return _epoch_ms(datetime.datetime.strptime(value, time_format))
    except (ValueError, OverflowError) as error:
        fault = f"{error}: correct --time-format (%f reads fractions of a second)"
        raise Unfit("not a time", fault) from None


def _epoch_ms(found: datetime.datetime) -> float:
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp() * 1000


def moment_ms(value: Any) -> float:
    """Epoch ms of an ISO 8601 time, UTC where it names no zone."""
    try:
        return _epoch_ms(datetime.datetime.fromisoformat(value.strip()))
    except (ValueError, OverflowError, AttributeError):
        message = (
            f"not a time such as 2026-11-22 03:20:00: {quoted(str(value))}; --time-format reads tables' other times"
        )
        raise Unfit("not a time", message) from None

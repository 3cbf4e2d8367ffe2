"""Counts per interval, such as hourly invocations, as arrivals: as they stand, or shaped as the papers do."""

import dataclasses
from dataclasses import dataclass
from typing import Final

import numpy as np

from replay.traces.formats.csv_rows import Table
from replay.traces.formats.faults import Faults
from replay.traces.formats.fields import Unfit, number, whole
from replay.traces.rates import EXPONENTIAL, POISSON, within
from replay.traces.trace import MAX_SPAN_MS, InvalidTrace, Trace, of_arrivals

SECONDS: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}  # column: what one row lasts
COUNTS: Final = ("invocations", "requests", "count", "arrivals")
MAX_COUNT: Final = 1e12
LONGEST_GAP: Final = 1000  # rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """The rule by which counts become arrivals. By default each row's number, within the row's time."""

    to_rps: tuple[float, float] | None = None  # the least count becomes the first rate, the greatest the second
    interval_s: float | None = None  # that a row lasts in the replay; None: what its column says
    spacing: str = POISSON

    @classmethod
    def of_the_papers(cls, low_rps: float, high_rps: float) -> "Shaping":
        """Scale from minimum to maximum, one row per second.

        Source: DiffServe 4.1 and its artifact, HADIS 4.1; ARGUS 5.1 brings SysX to Twitter's minimum and maximum so.
        """
        return cls(to_rps=(low_rps, high_rps), interval_s=1.0, spacing=EXPONENTIAL)


AS_THEY_STAND: Final = Shaping()


def is_counts(columns: tuple[str, ...]) -> bool:
    """Whether this is the format of a file with these columns."""
    return _one(columns, tuple(SECONDS)) is not None and _one(columns, COUNTS) is not None


def read_counts(
    table: Table, faults: Faults, shaping: Shaping, scale: float, seed: int, limit: int | None, name: str
) -> Trace:
    """The trace of a file of counts: rows must follow each other without gaps. Raises: InvalidTrace."""
    unit, column = _one(table.columns, tuple(SECONDS)), _one(table.columns, COUNTS)
    assert unit is not None, f"not columns of counts: {table.columns}"
    assert column is not None, f"not columns of counts: {table.columns}"
    counts = _counts(table, faults, unit, column)
    if not len(counts):
        raise InvalidTrace(f"{faults.source} has no counts{faults.describe()}")
    interval_s = SECONDS[unit] if shaping.interval_s is None else shaping.interval_s
    if len(counts) * interval_s * 1000 > MAX_SPAN_MS:
        raise InvalidTrace(f"{faults.source}: {len(counts)} rows of {interval_s:g} s last too long: give --interval")
    if shaping.to_rps is not None:
        counts = interval_s * minmax(counts, *shaping.to_rps)
    arrival_ms = within(counts * scale, interval_s, shaping.spacing, seed, limit)
    if not len(arrival_ms):
        raise InvalidTrace(f"{faults.source} gives no request: its counts are all near 0; give --scale or --to")
    return dataclasses.replace(of_arrivals(arrival_ms, name, faults.source), skipped=dict(faults.skipped))


def minmax(counts: np.ndarray, low: float, high: float) -> np.ndarray:
    """Counts [k] brought to low..high by a straight line; all `high` where they do not differ."""
    least, most = float(counts.min()), float(counts.max())
    if least == most:
        return np.full(len(counts), high)
    return low + (counts - least) / (most - least) * (high - low)


def _one(columns: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    found = [name for name in names if name in columns]
    return found[0] if len(found) == 1 else None


def _counts(table: Table, faults: Faults, unit: str, column: str) -> np.ndarray:
    """Return the counts, float64 [k]. A lenient reader fills a short gap with the count before it."""
    found: list[float] = []
    first: int | None = None
    for where, fields in table.rows:
        try:
            at, count = whole(fields[unit], f"{unit}s"), number(fields[column], column)
            if not 0 <= count <= MAX_COUNT:
                raise Unfit("not a count", f"{column} must be 0 to {MAX_COUNT:g}: got {fields[column][:80]}")
        except Unfit as fault:
            faults.found(where, fault.kind, str(fault))
            continue
        first = at if first is None else first
        missing = at - first - len(found)
        if missing:
            message = f"{unit} must rise by 1 a row: got {at} after {first + len(found) - 1}"
            faults.found(where, "repeated" if missing < 0 else "after a gap", message)
        if 0 <= missing <= LONGEST_GAP:
            found += [found[-1]] * missing if missing else []
            found.append(count)
    return np.array(found, dtype=np.float64)

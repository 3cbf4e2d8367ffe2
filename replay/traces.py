"""Arrival traces: read from a file, or generated. A trace is a list of offsets in ms since its start, never falling.

The file format is CSV, plain or gzip: a header `arrival_ms`, then one number a line.
"""

import gzip
import itertools
import math
import pathlib
import random
import zlib

from schemas.errors import PochadeError

COLUMN = "arrival_ms"
GZIP_MAGIC = b"\x1f\x8b"


class InvalidTrace(PochadeError):
    """A trace that cannot be replayed; the message names file and line."""


def read_trace(path: pathlib.Path) -> list[float]:
    """The arrivals of a trace file. Raises: InvalidTrace."""
    lines = _text(path).splitlines()
    if not lines or not any(line.strip() for line in lines):
        raise InvalidTrace(f"{path} is empty: it needs a line {COLUMN!r} and one number of milliseconds a line")
    if lines[0].strip() != COLUMN:
        raise InvalidTrace(f"{path}:1: expected the one column {COLUMN!r}, got {lines[0].strip()[:80]!r}")
    arrivals: list[float] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        arrival = _arrival(line.strip(), f"{path}:{number}")
        if arrivals and arrival < arrivals[-1]:
            raise InvalidTrace(f"{path}:{number}: arrivals must not fall: {arrival:g} after {arrivals[-1]:g}; sort it")
        arrivals.append(arrival)
    if not arrivals:
        raise InvalidTrace(f"{path} has a header and no arrivals")
    return arrivals


def _text(path: pathlib.Path) -> str:
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidTrace(f"no trace at {path}: give a CSV file with one column {COLUMN!r}") from error
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InvalidTrace(f"{path} cannot be read as CSV, plain or gzip: {error}") from error


def _arrival(text: str, where: str) -> float:
    try:
        arrival = float(text)
    except ValueError:
        raise InvalidTrace(f"{where}: not a number of milliseconds: {text[:80]!r}") from None
    if not math.isfinite(arrival) or arrival < 0:
        raise InvalidTrace(f"{where}: an arrival is 0 ms or later after the start: got {text[:80]}")
    return arrival


def constant(rate_rps: float, count: int) -> list[float]:
    """`count` arrivals, evenly spaced, the first at 0."""
    gap_ms = _gap_ms(rate_rps, count)
    return [i * gap_ms for i in range(count)]


def poisson(rate_rps: float, count: int, seed: int) -> list[float]:
    """`count` arrivals with exponential gaps of mean 1/rate, the first after a gap; the same for the same seed."""
    gap_ms = _gap_ms(rate_rps, count)
    dice = random.Random(seed)
    return list(itertools.accumulate(dice.expovariate(1 / gap_ms) for _ in range(count)))


def _gap_ms(rate_rps: float, count: int) -> float:
    if not (0 < rate_rps < math.inf and 1000 / rate_rps < math.inf):
        raise InvalidTrace(f"a rate is a number of requests per second above 0: got {rate_rps}")
    if count < 1:
        raise InvalidTrace(f"a trace has at least 1 request: got {count}")
    return 1000 / rate_rps

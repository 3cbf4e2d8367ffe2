"""Traces: `read` one from a file, or make one from rates."""

import pathlib

from replay.traces.formats.arrivals_csv import COLUMN
from replay.traces.rates import constant, poisson
from replay.traces.reading import Asked, read
from replay.traces.trace import InvalidTrace, Trace

__all__ = ["COLUMN", "Asked", "InvalidTrace", "Trace", "constant", "poisson", "read", "read_trace"]


def read_trace(path: pathlib.Path) -> list[float]:
    """The arrivals of a trace file, in ms since its start. Raises: InvalidTrace."""
    arrivals: list[float] = read(path).arrival_ms.tolist()
    return arrivals

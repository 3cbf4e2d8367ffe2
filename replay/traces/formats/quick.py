"""The short way for long files of arrivals alone: in chunks, and only if nothing at all is wrong with them."""

import itertools
import os
import pathlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from replay.traces.formats.arrivals_csv import COLUMN
from replay.traces.formats.faults import Faults
from replay.traces.formats.lines import open_lines
from replay.traces.trace import MAX_REQUESTS, MAX_SPAN_MS, InvalidTrace

CHUNK: Final = 1 << 16  # lines


def quick_arrivals(path: pathlib.Path) -> np.ndarray | None:
    """Return the arrivals [n] in ms of a well-formed file; None for others, which must be read line by line."""
    if not os.path.isfile(path):  # a pipe can be read once only; unlike Path.is_file it takes any name
        return None
    try:
        with open_lines(path, Faults(str(path), is_lenient=False), InvalidTrace, "") as lines:
            if lines.peek().strip() != COLUMN:
                return None
            next(lines)
            parts = [np.array(_ours(chunk), dtype=np.float64) for chunk in _chunks(lines)]
    except (InvalidTrace, ValueError):
        return None
    arrival_ms = np.concatenate(parts) if parts else np.zeros(0)
    is_whole = 0 < len(arrival_ms) <= MAX_REQUESTS and bool(np.isfinite(arrival_ms).all())
    is_fit = (
        is_whole and arrival_ms[0] >= 0 and arrival_ms[-1] <= MAX_SPAN_MS and bool((np.diff(arrival_ms) >= 0).all())
    )
    return arrival_ms if is_fit else None


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield all lines in chunks, and hold at most as many as a trace may have, whatever a packed file unpacks to."""
    for _ in range(0, MAX_REQUESTS + CHUNK, CHUNK):
        if not (chunk := list(itertools.islice(lines, CHUNK))):
            return
        yield chunk


def _ours(chunk: list[str]) -> list[str]:
    text = "".join(chunk)
    if "_" in text or not text.isascii():
        raise ValueError("numbers as Python, not as a CSV, writes them")
    return chunk

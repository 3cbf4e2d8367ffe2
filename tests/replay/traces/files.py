"""Trace files for the tests."""

import gzip
import json
import pathlib
from typing import Any

from replay.traces import Asked, Trace, read
from tests.paths import SHARED

DATA = SHARED / "data"
LENIENT = Asked(is_lenient=True)


def a_file(folder: pathlib.Path, content: str | bytes, *, is_packed: bool = False) -> pathlib.Path:
    """A file of that content, whose name says nothing."""
    data = content.encode() if isinstance(content, str) else content
    path = folder / "given"
    path.write_bytes(gzip.compress(data) if is_packed else data)
    return path


def jsonl(*requests: dict[str, Any]) -> str:
    """A JSON line each."""
    return "".join(json.dumps(request) + "\n" for request in requests)


def arrivals(*times: float) -> str:
    """An arrival CSV."""
    return "\n".join(["arrival_ms", *map(str, times)]) + "\n"


def read_in(folder: pathlib.Path, content: str | bytes, asked: Asked = Asked()) -> Trace:  # noqa: B008 - frozen
    """The trace of a file of that content."""
    return read(a_file(folder, content), asked)

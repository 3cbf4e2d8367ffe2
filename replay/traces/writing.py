"""A trace into a file that `read` reads again: arrivals alone as CSV, anything more as JSON lines; .gz packs it."""

import contextlib
import dataclasses
import functools
import gzip
import io
import json
import pathlib
from collections.abc import Iterator
from typing import Any, TextIO

import numpy as np

from replay.traces.formats.arrivals_csv import COLUMN
from replay.traces.trace import NOT_GIVEN, Overrides, Row, Trace
from schemas.errors import PochadeError

PLAIN = Overrides()


def is_bare(trace: Trace) -> bool:
    """Whether only the times of its requests are known."""
    has_prompts = len(trace.texts) or len(trace.ids) or bool((trace.prompt != NOT_GIVEN).any())
    has_values = not (np.isnan(trace.slack_ms).all() and np.isnan(trace.hardness).all())
    return (
        not has_prompts and not has_values and tuple(trace.wishes) == (PLAIN,) and bool((trace.seed == NOT_GIVEN).all())
    )


def write(trace: Trace, path: pathlib.Path) -> None:
    """Write a trace; equal traces make equal bytes. Raises PochadeError where it cannot be written."""
    with opened(path) as file:
        if is_bare(trace):
            file.write(f"{COLUMN}\n")
            file.writelines(f"{at:.15g}\n" for at in trace.arrival_ms.tolist())
        else:
            file.writelines(json.dumps(_fields(row), ensure_ascii=False) + "\n" for row in trace.rows())


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[TextIO]:
    """A text file to write, packed by its name; folders are made. Raises PochadeError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as raw, contextlib.ExitStack() as stack:
            packed = stack.enter_context(gzip.GzipFile("", "wb", fileobj=raw, mtime=0)) if path.suffix == ".gz" else raw
            yield stack.enter_context(io.TextIOWrapper(packed, encoding="utf-8", newline="\n"))
    except OSError as error:
        raise PochadeError(f"{path} cannot be written: {error.strerror}; choose another --out") from None


def _fields(row: Row) -> dict[str, Any]:
    fields: dict[str, Any] = {COLUMN: row.arrival_ms}
    if row.prompt is not None:
        fields["prompt"] = row.prompt
    elif row.prompt_index is not None:
        fields["prompt_index"] = row.prompt_index
    for name in ("slack_ms", "seed", "hardness", "request_id"):
        if (value := getattr(row, name)) not in (None, ""):
            fields[name] = value
    return fields | _overrides_as_json(row.wish)


@functools.cache
def _overrides_as_json(wish: Overrides) -> dict[str, Any]:
    """Return the overrides that differ from the defaults, as JSON."""
    usual = _flat(PLAIN)
    return {name: value for name, value in _flat(wish).items() if value != usual[name]}


def _flat(wish: Overrides) -> dict[str, Any]:
    fields = dataclasses.asdict(wish)
    options: dict[str, Any] = fields.pop("options")
    return options | fields

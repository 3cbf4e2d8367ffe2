"""The folder of a live run: its report, its trace as published, and a record of each request."""

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from replay.load.record import request_records
from replay.load.record.request_records import RequestRecord
from replay.reports import files
from replay.traces import Asked, read
from replay.traces.trace import Trace
from schemas.errors import PochadeError

TRACE_NAME, SEEN_NAME = "trace.jsonl.gz", "requests.jsonl"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The contents of a live run's folder: report, trace and request records."""

    report: Mapping[str, Any]
    trace: Trace
    seen: Sequence[RequestRecord]


def read_run(path: pathlib.Path) -> RunFolder:
    """Read a live run from its folder, or from the report.json there. Raises PochadeError where there is none."""
    folder = path if path.is_dir() else path.parent
    if not (path.exists() and (folder / files.JSON_NAME).exists()):
        raise PochadeError(f"no live run at {path}: make one with `pochade replay run TRACE ... --report DIR`")
    report = files.read(folder)
    if "live" not in report:
        raise PochadeError(f"{folder} is the report of a simulation: give that of a `pochade replay run`")
    trace = read(folder / TRACE_NAME, Asked(spreads=False))  # the times that were published
    found = request_records.read(folder / SEEN_NAME)
    if len(trace) != len(found):
        raise PochadeError(f"{folder}: the trace has {len(trace)} requests, {SEEN_NAME} has {len(found)}: run it again")
    return RunFolder(report, trace, found)

import pathlib

import pytest

from replay.load.record import request_records
from replay.load.record.folder import SEEN_NAME, TRACE_NAME, read_run
from replay.load.record.request_records import RequestRecord
from replay.reports import files
from replay.traces.writing import write
from tests.replay.load.runs import a_trace


def test_the_trace_of_a_run_has_the_times_at_which_it_was_published(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [0.0, 0.0, 1000.0, 1000.0, 2000.0, 3000.0]
    write(a_trace(times), tmp_path / TRACE_NAME)
    seen = [RequestRecord(n, f"r-{n}", "COMPLETED", 1.0, "light", 0.5, None, []) for n in range(len(times))]
    request_records.write(seen, tmp_path / SEEN_NAME)
    (tmp_path / "report.json").touch()
    monkeypatch.setattr(files, "read", lambda _: {"live": {}})
    assert read_run(tmp_path).trace.arrival_ms.tolist() == times

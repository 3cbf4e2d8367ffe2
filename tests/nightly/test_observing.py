"""`pochade bench observing`, in short: both routers place every record, and both pipelines answer every request."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

from replay.local.processes import START


def test_nothing_is_lost_with_and_without(new_home: Callable[[], pathlib.Path]) -> None:
    asked = ["--count", "500", "--portions", "2", "--requests", "20", "--warm-up", "5", "-o", "json"]
    command = [sys.executable, "-c", START, "--home", str(new_home()), "bench", "observing", *asked]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    report = json.loads(ran.stdout)
    assert report["lost"] == 0
    assert report["metrics"]["router_us"]["with"]["repeats"] == 2
    assert report["tracing"]["cpu_ms"].keys() == {"traced", "not"}

"""`pochade bench` in a process of its own, on the session's broker or on one that it starts, and its report."""

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from streams.broker import address

QUICK = ["--set", "kafka.session_timeout_ms=2000"]
POCHADE = "from streams.cli import main; main(prog_name='pochade')"


def reported(home: pathlib.Path, options: list[str], *asked: str) -> dict[str, Any]:
    """The JSON of one bench."""
    command = [sys.executable, "-c", POCHADE, "--home", str(home), *options, "bench", *asked, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["bench"] == asked[0]
    assert report["machine"]["cores"] >= 1
    assert report["versions"]["confluent-kafka"]
    assert all({"limit", "met"} == set(target) for target in report["targets"].values())
    return report


@pytest.fixture
def there(broker: address.Address, broker_home: pathlib.Path) -> tuple[pathlib.Path, list[str]]:
    """The session's broker as a configured cluster, where a bench deletes its topics."""
    return broker_home, [
        "--set",
        f"kafka.bootstrap_servers={broker.bootstrap}",
        "--set",
        "kafka.prefix=t-bench",
        *QUICK,
    ]

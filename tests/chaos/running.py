"""`pochade chaos` in a process of its own, and its report."""

import json
import pathlib
import subprocess
import sys
from typing import Any

from tests.left_over import left_over

POCHADE = "from streams.cli import main; main(prog_name='pochade')"


def chaos(home: pathlib.Path, *asked: str, limit_s: float) -> dict[str, Any]:
    """The report of a run that broke no promise and left no process."""
    command = [sys.executable, "-c", POCHADE, "--home", str(home), "chaos", "--report", str(home / "report.json")]
    done = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=limit_s)
    assert done.returncode == 0, done.stdout + done.stderr
    assert left_over(home) == [], "the run left processes"
    report: dict[str, Any] = json.loads((home / "report.json").read_text())
    return report


def reported(report: dict[str, Any]) -> list[str]:
    """What each fault did, those left out that met nothing."""
    return [each["told"] for each in report["faults"] if not each["told"].startswith("not done")]

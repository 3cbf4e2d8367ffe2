"""A short chaos run, as `pochade chaos` does it: broken at on purpose, and every promise kept."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest

pytestmark = pytest.mark.integration

POCHADE = "from streams.cli import main; main(prog_name='pochade')"
REQUESTS, FAULTS, SEED = 100, 7, 9


@pytest.mark.timeout(400)
def test_a_deployment_that_is_broken_at_loses_nothing_and_answers_nothing_twice(
    new_home: Callable[[], pathlib.Path],
) -> None:
    home = new_home()
    command = [sys.executable, "-c", POCHADE, "--home", str(home), "chaos", "--report", str(home / "report.json")]
    asked = ["--requests", str(REQUESTS), "--faults", str(FAULTS), "--seed", str(SEED)]
    done = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=380)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((home / "report.json").read_text())
    assert report["accepted"] == sum(report["outcomes"].values()) == REQUESTS
    assert (report["lost"], report["duplicates"], report["late_commits"], report["open"]) == (0, 0, 0, 0)
    assert report["outcomes"]["COMPLETED"] > REQUESTS / 2
    assert (report["pictures"]["broken"], report["orphans_left"]) == ([], 0)
    assert len(report["faults"]) == FAULTS
    assert sum(not each["told"].startswith("not done") for each in report["faults"]) >= FAULTS - 2
    assert f"--seed {SEED}" in report["again"]
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert [line for line in lines if str(home) in line] == [], "the run left processes"
    assert not list((home / "chaos").glob(f"*-{SEED}")), "a run that went well leaves its report, no more"

"""The demo from nothing to a report, with the engine that needs no models."""

import json
import pathlib
import subprocess
import sys

import psutil
import pytest

from replay.supervisor import spawn

pytestmark = pytest.mark.integration
POCHADE = "from streams.cli import main; main(prog_name='pochade')"


@pytest.fixture
def home(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "home"


def left_over(home: pathlib.Path) -> list[str]:
    """Command lines that still name this home."""
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(home) in line]


@pytest.mark.timeout(300)
def test_a_demo_paints_everything_once_and_leaves_nothing_running(home: pathlib.Path) -> None:
    command = [
        "--home",
        str(home),
        "demo",
        "--engine",
        "profile",
        "--catalog",
        "profile",
        "--count",
        "12",
        "--rate",
        "8",
    ]
    done = subprocess.run([sys.executable, "-c", POCHADE, *command], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((home / "demo" / "report.json").read_text())
    assert report["accepted"] == report["outcomes"]["COMPLETED"] == len(report["pictures"]) == 12
    assert (report["lost"], report["duplicates"], report["identical_pictures"]) == (0, 0, 0)
    page = (home / "demo" / "gallery.html").read_text()
    assert page.count("<article") == 12
    assert page.count("data:image/png;base64,") == 12 + report["escalated"]
    assert left_over(home) == []


@pytest.mark.timeout(120)
def test_a_demo_that_is_told_to_end_stops_what_it_started(home: pathlib.Path) -> None:
    log = home.parent / "demo.log"
    demo = spawn([sys.executable, "-c", POCHADE, "--home", str(home), "demo", "--catalog", "profile"], log)
    while "waiting for" not in (log.read_text() if log.exists() else ""):
        assert demo.poll() is None, log.read_text()
        psutil.Process().cpu_percent(interval=0.1)
    demo.terminate()
    assert demo.wait(60) == 128 + 15
    assert left_over(home) == []

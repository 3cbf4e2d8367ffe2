"""The demo from nothing to a report, with the engine that needs no models."""

import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from streams.processes.children import spawn
from tests.integration.waiting import poll_until
from tests.left_over import left_over
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker
POCHADE = "from streams.cli import main; main(prog_name='pochade')"


@pytest.fixture
def home(new_home: Callable[[], pathlib.Path]) -> pathlib.Path:
    return new_home()


def demo(home: pathlib.Path, *options: str) -> list[str]:
    return [sys.executable, "-c", POCHADE, "--home", str(home), "demo", "--catalog", "profile", *options]


def test_a_demo_that_is_told_to_end_stops_what_it_started(home: pathlib.Path) -> None:
    log = home / "told.log"
    running = spawn(demo(home), log)
    poll_until(lambda: "waiting for" in log.read_text(), "roles started")
    running.terminate()
    assert running.wait(PATIENCE_S) == 128 + 15
    assert left_over(home) == []


def test_a_policy_that_is_unknown_is_reported_and_nothing_stays(home: pathlib.Path) -> None:
    done = subprocess.run(demo(home, "--policy", "nonsense"), capture_output=True, text=True, timeout=280)
    assert done.returncode == 1
    assert "unknown policy 'nonsense'" in done.stderr
    assert left_over(home) == []

"""The demo from nothing to a report, with the engine that needs no models."""

import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from planner.policies import DEFAULT, JUDGES_ALL
from streams.processes.children import spawn
from tests.environments import built, make
from tests.integration.waiting import poll_until
from tests.left_over import left_over
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.integration
POCHADE = "from streams.cli import main; main(prog_name='pochade')"


@pytest.fixture
def home(new_home: Callable[[], pathlib.Path]) -> pathlib.Path:
    return new_home()


def demo(home: pathlib.Path, *options: str) -> list[str]:
    return [sys.executable, "-c", POCHADE, "--home", str(home), "demo", "--catalog", "profile", *options]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    return built(tmp_path_factory.mktemp("dist"), "pochade", "pochade-client", "pochade-tiny")


def test_a_demo_generates_everything_once_and_leaves_nothing_running(
    home: pathlib.Path, wheels: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """Where the product and its client are installed, without torch, models or laboratory."""
    base = make(tmp_path / "venv", [wheels["pochade"], wheels["pochade-client"]], ["pochade"])
    asked = ["--catalog", "profile", "--count", "12", "--rate", "8"]
    done = base.run(base.pochade, "--home", home, "demo", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((home / "demo" / "report.json").read_text())
    assert report["accepted"] == report["outcomes"]["COMPLETED"] == len(report["pictures"]) == 12
    assert (report["lost"], report["duplicates"], report["identical_pictures"]) == (0, 0, 0)
    assert report["policies"] == [DEFAULT, JUDGES_ALL], "a policy is pinned while requests are under way"
    assert "threshold=0.9" in done.stdout + done.stderr, "most first images are below it, and refined"
    page = (home / "demo" / "gallery.html").read_text()
    assert page.count("<article") == 12
    assert page.count("data:image/png;base64,") == 12 + report["escalated"]
    assert left_over(home) == []


def test_the_tiny_models_are_served_where_they_and_what_workers_need_are_installed(
    home: pathlib.Path, wheels: dict[str, pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """Without the laboratory, and without what reuse, object stores and reports need."""
    made = make(tmp_path / "venv", wheels.values(), ["pochade[worker]", "pochade-tiny"])
    done = made.run(made.pochade, "--home", home, "demo", "--count", "6", "--rate", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((home / "demo" / "report.json").read_text())
    assert report["outcomes"] == {"COMPLETED": 6}
    assert left_over(home) == []


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

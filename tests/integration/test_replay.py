"""A trace replayed to real roles on a real broker: refused where nobody serves, interrupted, and gone on with."""

import json
import pathlib
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from replay.live.presence import absent, members
from replay.simulation.hops import RANKS
from replay.supervisor import spawn
from streams import cli
from streams.settings import Settings
from tests.integration.pipeline import running_pipeline

pytestmark = pytest.mark.integration
PollUntil = Callable[[Callable[[], bool], float, str], bool]
POCHADE = [sys.executable, "-c", "from streams.cli import main; main(prog_name='pochade')"]
REQUESTS, RATE_RPS = 50, 10


def replay(settings: Settings, *words: str) -> list[str]:
    return [*POCHADE, "--home", str(settings.home), *words]


def options(settings: Settings) -> list[str]:
    return ["--prefix", settings.kafka.prefix, "--catalog", "profile", "--slo", "5"]


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_ms\n" + "".join(f"{1000 / RATE_RPS * n}\n" for n in range(REQUESTS)))
    return path


@pytest.mark.timeout(60)
def test_a_trace_is_not_published_where_nobody_serves(settings: Settings, trace: pathlib.Path) -> None:
    words = ["replay", "run", str(trace), *options(settings)]
    done = subprocess.run(replay(settings, *words), capture_output=True, text=True, timeout=50)
    assert done.returncode == 1
    assert "give --serve N" in done.stderr


@pytest.mark.timeout(120)
def test_an_interrupted_run_goes_on_and_publishes_nothing_twice(
    settings: Settings, tmp_path: pathlib.Path, trace: pathlib.Path, poll_until: PollUntil
) -> None:
    out, log = tmp_path / "out", tmp_path / "first.log"
    words = ["replay", "run", str(trace), "--name", "it", *options(settings), "--report", str(out)]
    with running_pipeline(settings, tmp_path / "logs") as pipeline:
        poll_until(lambda: not absent(members(settings)), 40, "every role is a member of its group")
        first = spawn(replay(settings, *words), log)
        poll_until(lambda: len(pipeline.results) >= 10, 40, "the run was half published")
        first.send_signal(signal.SIGINT)  # type: ignore[attr-defined]  # a Popen
        assert first.wait(30) != 0
        told = re.search(r"to go on: pochade (.*)", log.read_text())
        assert told, log.read_text()
        before = len(pipeline.results)
        assert before < REQUESTS
        again = subprocess.run([*POCHADE, *shlex.split(told[1])], capture_output=True, text=True, timeout=60)
        assert again.returncode == 0, again.stdout + again.stderr
    report = json.loads((out / "report.json").read_text())
    live, (figures,) = report["live"], report["policies"].values()
    assert 10 <= live["before"] < REQUESTS
    assert (live["published"], live["published_twice"]) == (REQUESTS, 0)
    assert (live["lost"], live["duplicates"], live["refused"]) == (0, 0, 0)
    assert live["lateness_ms"]["requests"] == REQUESTS - live["before"]
    assert (figures["requests"], figures["completed"]) == (REQUESTS, REQUESTS)
    assert [len(slot) for slot in live["hops"]["arrive"]] == [len(RANKS)]
    assert len(report["demand_rps"]) * report["interval_s"] < 10  # the pause in between takes no time
    checked = CliRunner().invoke(cli.main, ["simulate", "--validate", str(out), "--within", "1"])
    assert "p95 latency" in checked.output, checked.output

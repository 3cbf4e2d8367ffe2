"""A trace replayed to real roles on a real broker: refused where nobody serves, interrupted, and gone on with."""

import contextlib
import json
import pathlib
import re
import shlex
import signal
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from replay.load.presence import absent, members
from replay.local.processes import START, role_process
from replay.local.readiness import Readiness
from replay.simulation.draws.hop_latencies import RANKS
from schemas.topics import FLEET, PLAN, RESULTS
from streams import cli
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.topics import create_topics
from streams.processes.children import end_all
from streams.settings import Settings
from tests.integration.forked import ROLE_SERVER
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker
ROLES = ("classifier", "router", "worker", "discriminator", "ledger", "planner")
REQUESTS, RATE_RPS = 50, 10
PAUSE_AT, PAUSE_S = 20, 5  # nothing arrives for a while: time to interrupt a run, however slow the machine is
CATALOG = "profile"


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "trace.csv"
    arrivals_s = [n / RATE_RPS + PAUSE_S * (n >= PAUSE_AT) for n in range(REQUESTS)]
    path.write_text("arrival_ms\n" + "".join(f"{1000 * at_s}\n" for at_s in arrivals_s))
    return path


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """The command that runs in this process leaves no handlers behind."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def words(settings: Settings, trace: pathlib.Path, *more: str) -> list[str]:
    asked = ["--prefix", settings.kafka.prefix, "--catalog", CATALOG, "--slo", "5", "--no-drop", *more]
    return ["--home", str(settings.home), "replay", "run", str(trace), *asked]


def called(asked: list[str]) -> Result:
    """The command in this process: a second one costs seconds of loading."""
    return CliRunner().invoke(cli.main, asked)


@contextlib.contextmanager
def serving(settings: Settings, log: pathlib.Path) -> Iterator[None]:
    """Every role in one process, from ready to stopped."""
    options = ["--home", str(settings.home), "--set", f"kafka.prefix={settings.kafka.prefix}"]
    process = role_process(
        "all",
        ROLES,
        [*options, "--set", f"catalog={CATALOG}", "--set", "planner.policy=clipper-light"],
        {"worker.id": "worker-1"},
    )
    create_topics(settings, ["light", "heavy"])
    child, ready = ROLE_SERVER.fork(process.command, log), Readiness(["worker-1"])
    follower = TopicTailer(settings, [PLAN, FLEET], ready.on_record).start()
    try:
        poll_until(lambda: not ready.missing(), f"a plan and a worker: {log}")
        poll_until(lambda: not absent(members(settings)), f"every role is a member of its group: {log}")
        yield
    finally:
        follower.close()
        end_all([child])


def test_a_trace_is_not_published_where_nobody_serves(settings: Settings, trace: pathlib.Path) -> None:
    done = called(words(settings, trace))
    assert done.exit_code == 1
    assert "give --serve N" in done.output


def test_an_interrupted_run_goes_on_and_publishes_nothing_twice(
    settings: Settings, tmp_path: pathlib.Path, trace: pathlib.Path
) -> None:
    out, log = tmp_path / "out", tmp_path / "first.log"
    asked, seen = words(settings, trace, "--name", "it", "--report", str(out)), list[bytes | None]()
    with serving(settings, tmp_path / "roles.log"), contextlib.ExitStack() as stack:
        results = TopicTailer(settings, [RESULTS], lambda record: seen.append(record.key)).start()
        stack.callback(results.close)
        first = ROLE_SERVER.fork([sys.executable, "-c", START, *asked], log)
        poll_until(lambda: len(seen) >= 10, "some of the run was published and served")
        first.terminate()  # what a shell began in its background ignores SIGINT
        assert first.wait(PATIENCE_S) != 0
        reported = re.search(r"to go on: pochade (.*)", log.read_text())
        assert reported, log.read_text()
        assert len(seen) < REQUESTS
        again = called(shlex.split(reported[1]))
        assert again.exit_code == 0, again.output
    report = json.loads((out / "report.json").read_text())
    live, (figures,) = report["live"], report["policies"].values()
    assert 10 <= live["before"] < REQUESTS
    assert (live["published"], live["published_twice"]) == (REQUESTS, 0)
    assert (live["lost"], live["duplicates"], live["refused"]) == (0, 0, 0)
    assert live["lateness_ms"]["requests"] == REQUESTS - live["before"]
    assert (figures["requests"], figures["completed"]) == (REQUESTS, REQUESTS)
    assert [len(slot) for slot in live["hops"]["arrive"]] == [len(RANKS)]
    assert len(report["demand_rps"]) * report["interval_s"] < PAUSE_S + 7  # the time between the two takes no time
    checked = called(["bench", "validate", str(out), "--within", "1"])
    assert "p95 latency" in checked.output, checked.output

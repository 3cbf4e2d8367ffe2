"""Commands that a page asks for run as children, one at a time, with the console's own settings."""

import asyncio
import pathlib

import pytest

from agents.console import children
from agents.console.children import CommandFailed, Commands, environment_of
from streams.settings import Settings, load


def commands(timeout_s: float = 30) -> Commands:
    return Commands(load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}), timeout_s)


def test_a_child_has_the_settings_of_the_console_wherever_they_came_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POCHADE_CATALOG", "profile")
    stated = load({"kafka": {"prefix": "mine"}, "planner": {"parameters": {"x": 0.5}}, "home": tmp_path})
    environment = environment_of(stated)
    for name in ("POCHADE_CATALOG", "POCHADE_KAFKA", "POCHADE_PLANNER"):
        assert name in environment
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Settings() == stated


def test_a_command_that_takes_too_long_is_ended_and_the_next_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked() -> object:
        slow = commands(0.2)
        monkeypatch.setattr(children, "START", "import time; time.sleep(60)")
        with pytest.raises(CommandFailed, match="took longer than"):
            await slow.run("audit")
        assert slow.running == ""
        quick = commands()
        monkeypatch.setattr(children, "START", "print('[1]')")
        return await quick.run("audit")

    assert asyncio.run(asked()) == [1]


def test_one_command_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "START", "import time; time.sleep(.2); print('{}')")

    async def asked() -> list[object]:
        one = commands()
        return await asyncio.gather(one.run("audit"), one.run("audit"), return_exceptions=True)

    first, second = asyncio.run(asked())
    assert first == {}
    assert isinstance(second, CommandFailed)
    assert "one command runs at a time" in str(second)


def test_a_command_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "START", "import sys; sys.exit('the broker is away')")
    with pytest.raises(CommandFailed, match="the broker is away"):
        asyncio.run(commands().run("audit"))


def test_a_report_comes_with_what_its_command_said_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program = """
import pathlib, sys
pathlib.Path(sys.argv[-1], "report.json").write_text("[1]")
print("a table")
print("skipped: 8 not a request", file=sys.stderr)
print("", file=sys.stderr)
"""
    monkeypatch.setattr(children, "START", program)
    assert asyncio.run(commands().report("simulate")) == ([1], ("skipped: 8 not a request",))


def test_a_report_must_come_in_the_time_limit_and_says_meanwhile_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    program = f"""
import pathlib, sys, time
print("progress: joint: 30 of 60 min", file=sys.stderr, flush=True)
while not pathlib.Path({str(tmp_path / "seen")!r}).exists(): time.sleep(.01)
pathlib.Path(sys.argv[-1], "report.json").write_text(str(float(sys.argv[sys.argv.index("--time-limit") + 1])))
"""

    async def asked() -> tuple[str, object]:
        one = commands(30)
        report = asyncio.create_task(one.report("simulate"))
        while not one.progress:
            await asyncio.sleep(0.01)
        said = one.progress
        (tmp_path / "seen").touch()
        return said, await report

    monkeypatch.setattr(children, "START", program)
    said, report = asyncio.run(asked())
    assert said == "joint: 30 of 60 min"
    assert report == (15.0, ())

"""The one form in which times are shown."""

import time
from collections.abc import Iterator

import pytest

from agents.commands.plan_tables import print_history
from agents.console.pages import moment
from planner.control.renewal.same_plan import decisions
from streams.clock import utc
from streams.commands.showing import line
from tests.builders import a_plan
from tests.replay.runs import a_result


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_time_has_date_and_zone_and_no_calendar_is_asked_too_much() -> None:
    assert utc(1_795_834_800_500) == "2026-11-28T03:00:00Z"
    assert utc(1_795_834_800_500, "milliseconds") == "2026-11-28T03:00:00.500Z"
    assert utc(2**62) == f"{2**62} ms"
    assert moment(1_795_834_800_500) == "03:00:00Z"
    assert moment(2**62) == f"{2**62} ms"


@pytest.mark.usefixtures("in_tokyo")
def test_commands_show_times_in_the_same_zone_wherever_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    print_history(decisions([a_plan()]), a_plan().created_ms)
    assert utc(a_plan().created_ms) in capsys.readouterr().out
    result = a_result()
    assert line(result).startswith(utc(result.ended_ms))

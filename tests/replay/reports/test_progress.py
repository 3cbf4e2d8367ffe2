import io
from typing import Any

from rich.console import Console

from replay.reports.progress import LiveReporter, PlainReporter, RunState
from tests.replay.runs import a_result, a_step


def a_state(**changes: Any) -> RunState:
    values: dict[str, Any] = {"total": 24, "sent": 4, "generated": 3, "escalated": 1, "ended": 2, "newest": ()}
    return RunState(**(values | changes))


def test_plain_progress_says_what_is_new_and_not_too_often() -> None:
    lines: list[str] = []
    now_s = [0.0]
    teller = PlainReporter(lines.append, lambda: now_s[0])
    teller.phase("starting")
    teller.phase("starting")
    teller.state(a_state())
    teller.state(a_state(ended=3))
    now_s[0] = 2.0
    teller.state(a_state(ended=3))
    teller.state(a_state(ended=24))
    assert lines == [
        "starting",
        "sent 4 of 24, generated 3, escalated 1, ended 2 of 24",
        "sent 4 of 24, generated 3, escalated 1, ended 3 of 24",
        "sent 4 of 24, generated 3, escalated 1, ended 24 of 24",
    ]


def test_live_progress_shows_the_newest_prompts_with_their_levels_and_notes_as_they_are() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with LiveReporter(console) as teller:
        teller.phase("starting [bold]")
        teller.note("worker-1 ended [red]")
        teller.state(a_state(newest=(a_result(a_step(level="sketch"), prompt="a [green] tree"),)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "sketch" in shown
    assert "a [green] tree" in shown
    assert "worker-1 ended [red]" in shown

"""Reports the progress of a run: live on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID
from rich.spinner import Spinner
from rich.text import Text

from schemas.messages import Result

NEWEST_LINES = 6
PLAIN_EVERY_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Counts of a run in progress."""

    total: int
    sent: int
    generated: int  # images, drafts included
    escalated: int
    ended: int
    newest: Sequence[Result]  # oldest first

    def words(self) -> str:
        """Return the counts as one line."""
        return (
            f"sent {self.sent} of {self.total}, generated {self.generated}, "
            f"escalated {self.escalated}, ended {self.ended} of {self.total}"
        )


class ProgressReporter(Protocol):
    """Port that a run reports its progress to; a context manager around the whole run."""

    def phase(self, text: str) -> None:
        """Report what is being waited for now; an equal text again is not repeated."""

    def note(self, text: str) -> None:
        """Report an event, which stays readable."""

    def state(self, state: RunState) -> None:
        """Report how far the run is; called many times per second."""

    def __enter__(self) -> "ProgressReporter": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None: ...


class PlainReporter:
    """Lines without control characters, a new one of the run's state every PLAIN_EVERY_S at most."""

    def __init__(self, echo: Callable[[str], None], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._echo, self._clock_s = echo, clock_s
        self._phase = self._last = ""
        self._reported_s = -PLAIN_EVERY_S

    def phase(self, text: str) -> None:
        if text != self._phase:
            self._phase = text
            self._echo(text)

    def note(self, text: str) -> None:
        self._echo(text)

    def state(self, state: RunState) -> None:
        words, now_s = state.words(), self._clock_s()
        is_due = now_s - self._reported_s >= PLAIN_EVERY_S or state.ended == state.total
        if words != self._last and is_due:
            self._last, self._reported_s = words, now_s
            self._echo(words)

    def __enter__(self) -> "PlainReporter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        return None


class LiveReporter:
    """A spinner while things start, then a bar, the counts and the newest prompts; notes scroll above."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner = Spinner("dots", text="starting")
        self._bar = Progress(BarColumn(bar_width=36, complete_style="green"), MofNCompleteColumn(), console=console)
        self._task: TaskID | None = None
        self._live = Live(self._spinner, console=console, refresh_per_second=12, transient=True)

    def phase(self, text: str) -> None:
        self._spinner.update(text=Text(text, style="dim"))
        self._live.update(self._spinner)

    def note(self, text: str) -> None:
        self._console.print(escape(text), highlight=False)

    def state(self, state: RunState) -> None:
        if self._task is None:
            self._task = self._bar.add_task("", total=state.total)
        self._bar.update(self._task, completed=state.ended)
        lines: list[RenderableType] = [self._bar, Text(state.words(), style="dim")]
        self._live.update(Group(*lines, *(_newest(result) for result in state.newest[-NEWEST_LINES:])))

    def __enter__(self) -> "LiveReporter":
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._live.stop()


def _newest(result: Result) -> Text:
    style = "red" if result.image_uri is None else "yellow" if result.escalated else "green"
    return Text.assemble(
        ("  " + (result.level or str(result.status).lower()).ljust(10), style),
        result.prompt,
        overflow="ellipsis",
        no_wrap=True,
    )


def open_reporter(console: Console) -> ProgressReporter:
    """The one that fits where the output goes."""
    return (
        LiveReporter(console) if console.is_terminal else PlainReporter(lambda text: console.out(text, highlight=False))
    )

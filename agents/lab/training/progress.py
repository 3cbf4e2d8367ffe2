"""Training on the terminal: a bar for each running step, a line for each that has ended."""

from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from agents.lab.training.plan import Step

_LINE = 60  # characters of a log line that are shown


class ProgressDisplay(AbstractContextManager["ProgressDisplay"]):
    """A `runner.Watcher`; without a terminal it prints only what began and ended."""

    def __init__(self, console: Console, scale: float = 1.0) -> None:
        """`scale` is the share of the training that is done, for the minutes that are announced."""
        self.console, self._scale = console, scale
        columns = (TextColumn("{task.description:<14}"), BarColumn(20), TaskProgressColumn(), TimeElapsedColumn())
        line = TextColumn("[dim]{task.fields[line]}")
        self._bars = Progress(*columns, line, console=console, disable=not console.is_terminal)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "ProgressDisplay":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks.values():
            self._bars.remove_task(task)
        self._bars.stop()

    def refresh(self) -> None:
        """Show the bars as they are now."""
        self._bars.refresh()

    def say(self, line: str) -> None:
        self.console.print(escape(line), highlight=False)

    def skipped(self, step: Step) -> None:
        self.say(f"{step.name}: finished before")

    def began(self, step: Step, log: Path) -> None:
        minutes = f"{max(1.0, step.minutes * self._scale):.0f}"
        self.say(f"{step.name}: about {minutes} min, log in {log}")
        self._tasks[step.name] = self._bars.add_task(step.name, total=None, line="")

    def goes_on(self, step: Step, done: int, total: int, line: str) -> None:
        self._bars.update(
            self._tasks[step.name],
            completed=done,
            total=total or None,
            line=escape(line.removeprefix(step.name)[:_LINE]),
        )

    def ended(self, step: Step, minutes: float) -> None:
        self._bars.remove_task(self._tasks.pop(step.name))
        self.say(f"{step.name}: done in {minutes:.1f} min")

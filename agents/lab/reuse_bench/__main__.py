"""The process that `pochade bench reuse` starts: measures, and prints one JSON object on standard output.

`replay` is a client and imports no role. What is asked comes as one JSON object on standard input: `effort` (fields of
`effort.Effort`), `prompts` and `settings`. The answer is the report, or `{"error": reason}`.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator

from agents.lab.reuse_bench.effort import Effort, Progress
from agents.lab.reuse_bench.run import run
from schemas.errors import PochadeError
from streams.settings import load


def main() -> int:
    """Measure what standard input asks for. Exit status 1: it could not be measured, and `error` says why."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # what importing it warns of would break up the bar
    asked = json.load(sys.stdin)
    effort = Effort(prompts=tuple(asked["prompts"]), **asked["effort"])
    try:
        with contextlib.redirect_stdout(sys.stderr), _shown(effort.parts) as progress:
            report = run(load(asked["settings"]), effort, progress)
    except PochadeError as error:
        report = {"error": str(error)}
    sys.stdout.write(f"{json.dumps(report)}\n")
    return int("error" in report)


@contextlib.contextmanager
def _shown(parts: int) -> Iterator[Progress]:
    """A progress bar on standard error without a thread of its own, which would take time from what is timed.

    This process ends when its parent has ended, as the measurement would have no reader.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    bar, parent = Bar(*columns, console=Console(stderr=True), auto_refresh=False, transient=True), os.getppid()

    def progress(what: str, done: int) -> None:
        if os.getppid() != parent:
            sys.exit(1)
        bar.update(task, advance=done, description=what, refresh=True)

    with bar:
        task = bar.add_task("loading", total=parts)
        yield progress


if __name__ == "__main__":
    sys.exit(main())

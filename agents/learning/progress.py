"""How far a fit is: what `fit_*` functions are called with, and a bar that shows it."""

import contextlib
from collections.abc import Callable, Iterator

from agents.profiling.generation.pool import progress_bar

Progress = Callable[[float], None]  # called with the share that is done, 0..1


def nothing(_: float) -> None:
    """No progress is shown."""


@contextlib.contextmanager
def shown(what: str) -> Iterator[Progress]:
    """Show a bar on stderr."""
    with progress_bar() as bar:
        task = bar.add_task(what, total=1.0)
        yield lambda share: bar.update(task, completed=share)
        bar.update(task, completed=1.0)  # also where it ended early

"""Roles started behind a statement of ours, which changes what they will meet. Loads nothing: it delays their start."""

import contextlib
import pathlib
import time
from collections.abc import Iterator

from replay.local.processes import RoleProcess

POLL_S = 0.02


def behind(process: RoleProcess, statement: str) -> RoleProcess:
    """A process that runs a function of this module before anything of the role is loaded."""
    python, option, start, *rest = process.command
    moved = f"from replay.verify.chaos import launching; launching.{statement}; {start}"
    return RoleProcess(name=process.name, command=(python, option, moved, *rest))


def skewed(process: RoleProcess, by_ms: int) -> RoleProcess:
    """A process with a wrong clock."""
    return behind(process, f"move({by_ms})")


def stallable(process: RoleProcess, mark: pathlib.Path) -> RoleProcess:
    """A process whose store stalls while the file is there."""
    return behind(process, f"stall({str(mark)!r})")


def move(by_ms: int) -> None:
    """Move Python's wall clock in this process; monotonic time goes on."""
    right_ns = time.time_ns
    time.time_ns = lambda: right_ns() + by_ms * 1_000_000
    time.time = lambda: time.time_ns() / 1e9


def stall(mark: str) -> None:
    """Let this process's folder stores wait while the file is there."""
    from streams.store.folder import FolderImageStore

    available, wait_for = FolderImageStore._available, pathlib.Path(mark)

    @contextlib.contextmanager
    def when_it_answers(store: FolderImageStore, what: str, path: pathlib.Path) -> Iterator[None]:
        while wait_for.exists():
            time.sleep(POLL_S)
        with available(store, what, path):
            yield

    FolderImageStore._available = when_it_answers  # type: ignore[method-assign, assignment]

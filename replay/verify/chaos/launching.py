"""Starts roles after a statement that changes their environment. Imports little, as it delays their start."""

import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from replay.local.processes import RoleProcess

POLL_S = 0.02
BROKEN = "CHAOS_ENGINE"  # as in agents/engines/chaos.py
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000  # of Linux: sched.h, sys/mount.h


def behind(process: RoleProcess, statement: str) -> RoleProcess:
    """A process that runs a function of this module before anything of the role is loaded."""
    python, option, start, *rest = process.command
    moved = f"from replay.verify.chaos import launching; launching.{statement}; {start}"
    return RoleProcess(name=process.name, command=(python, option, moved, *rest))


def skewed(process: RoleProcess, by_ms: int) -> RoleProcess:
    """A process with a wrong clock."""
    return behind(process, f"move({by_ms})")


def broken(process: RoleProcess, how: str) -> RoleProcess:
    """A worker whose engine `chaos` is broken: `how` as `agents.engines.chaos.BROKEN` has it."""
    return behind(process, f"break_engine({how!r})")


def stallable(process: RoleProcess, mark: pathlib.Path) -> RoleProcess:
    """A process whose store stalls while the file is there."""
    return behind(process, f"stall({str(mark)!r})")


def stopping_at_points(process: RoleProcess, folder: pathlib.Path) -> RoleProcess:
    """A worker that stops where a fault waits for it (`weights/points.py`)."""
    return behind(process, f"stop_at_points({str(folder)!r})")


def on_small_disk(process: RoleProcess, volume: pathlib.Path, size: int) -> RoleProcess:
    """A worker whose volume is an empty file system of `size` bytes that only this process sees."""
    return behind(process, f"mount_small_disk({str(volume)!r}, {size})")


def can_have_small_disk() -> bool:
    """Whether this system lets a process of ours mount a file system of its own: Linux, with the rights to."""
    with tempfile.TemporaryDirectory() as folder:
        statement = f"from replay.verify.chaos import launching; launching.mount_small_disk({folder!r}, 65536)"
        return subprocess.run([sys.executable, "-c", statement], capture_output=True, check=False).returncode == 0


def break_engine(how: str) -> None:
    """Break the device of this process."""
    os.environ[BROKEN] = how


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


def stop_at_points(folder: str) -> None:
    """Let this process stop at the points that a fault arms in a folder."""
    from replay.verify.chaos.weights.points import stop_at_all

    stop_at_all(pathlib.Path(folder))


def mount_small_disk(folder: str, size: int) -> None:
    """Mount an empty file system in memory over a folder, for this process alone: it is gone with the process.

    Raises OSError where this process may not.
    """
    libc = ctypes.CDLL(None, use_errno=True)

    def check(status: int, what: str) -> None:
        if status:
            raise OSError(ctypes.get_errno(), f"cannot {what}: {os.strerror(ctypes.get_errno())}")

    check(libc.unshare(CLONE_NEWNS), "have mounts of its own")
    check(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "keep its mounts to itself")
    check(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()), f"mount over {folder}")

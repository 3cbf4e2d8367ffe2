"""Starts child processes so that none outlives this one, and ends them together.

A broker and its registry, which outlive the command that starts them, are started by `streams/broker/process.py`.
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from streams.security.private_folder import create_private

PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # looked up before any fork

STOP_S = 15.0  # between SIGTERM and SIGKILL


class Child(Protocol):
    """Protocol of a started process; `subprocess.Popen` satisfies it."""

    pid: int

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Block until the process has ended. Raises subprocess.TimeoutExpired."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def kill(self) -> None:
        """Send SIGKILL."""


Spawn = Callable[[Sequence[str], pathlib.Path], Child]


def spawn(command: Sequence[str], log: pathlib.Path, *, pass_fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start a child in a process group of its own, so that Ctrl-C reaches only us; it dies with us, however we do.

    Both outputs are appended to `log`. `pass_fds`: open files that it gets under their numbers.
    """
    create_private(log.parent)
    parent = os.getpid()
    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=lambda: die_with(parent),
            pass_fds=pass_fds,
        )


def die_with(parent: int) -> None:
    """Let Linux send this process SIGTERM when its parent, whose pid this is, ends; end at once if it has."""
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked for its signal
            os._exit(1)


def end_all(
    children: Iterable[Child], limit_s: float = STOP_S, *, clock_s: Callable[[], float] = time.monotonic
) -> list[int]:
    """Send SIGTERM to all that run, SIGKILL to those that still run after `limit_s`; return the exit statuses."""
    ending = list(children)
    for child in ending:
        if child.poll() is None:
            child.terminate()
    end_s = clock_s() + limit_s
    return [_awaited(child, end_s - clock_s()) for child in ending]


def _awaited(child: Child, left_s: float) -> int:
    try:
        return child.wait(max(0.0, left_s))
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()

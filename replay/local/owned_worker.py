"""A worker process that outlives its supervisor: a locked file says that it runs, and which process it is.

    started worker  --flock--> WORKER.lock, with its pid in it, until it ends, however it ends
    supervisor      a worker without a held lock does not run; a second process of the same worker ends at once

So a new supervisor finds the workers of the one before, and starts none twice.
"""

import contextlib
import fcntl
import os
import pathlib
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from streams.locks import try_lock
from streams.security.private_folder import create_private

SUFFIX: Final = ".lock"
RUNS_ALREADY: Final = 75  # exit status: a process of this worker runs (EX_TEMPFAIL of sysexits.h)
_lock_handles: list[int] = []  # stay open until the process ends, and the locks with them


def main(arguments: Sequence[str]) -> None:
    """Be the worker's process: take its lock, the first argument, then run `pochade` with the others."""
    from streams import cli

    if not take(pathlib.Path(arguments[0])):
        print(f"{arguments[0]} is locked: this worker runs already", file=sys.stderr)
        sys.exit(RUNS_ALREADY)
    sys.argv = ["pochade", *arguments[1:]]
    cli.main(list(arguments[1:]), prog_name="pochade")


def take(file: pathlib.Path) -> bool:
    """Lock a worker's file until this process ends, and write the pid; False: another process holds it."""
    create_private(file.parent)
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not try_lock(handle):
        os.close(handle)
        return False
    os.ftruncate(handle, 0)
    os.write(handle, str(os.getpid()).encode())
    _lock_handles.append(handle)
    return True


def holder(file: pathlib.Path) -> int | None:
    """Return the pid of the process that holds a worker's file; None if there is none or it has not written it yet."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(handle, 32).decode()
        return int(text) if text.isdecimal() else None
    finally:
        os.close(handle)  # with the shared lock
    return None


class FoundWorker:
    """A worker that another supervisor started; satisfies `streams.processes.Child`. Its exit status is unknown: 0."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError: it has ended."""
        self.pid, self._handle = pid, os.pidfd_open(pid)
        self._has_ended = False

    def poll(self) -> int | None:
        """Return 0 once it has ended, None while it runs."""
        return self._awaited(0)

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended. Raises subprocess.TimeoutExpired."""
        status = self._awaited(None if timeout is None else round(1000 * timeout))
        if status is None:
            raise subprocess.TimeoutExpired(f"worker process {self.pid}", timeout or 0.0)
        return status

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self._send(signal.SIGKILL)

    def _awaited(self, timeout_ms: int | None) -> int | None:
        if not self._has_ended:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(timeout_ms):
                return None
            self._has_ended = True
            os.close(self._handle)
        return 0

    def _send(self, number: signal.Signals) -> None:
        if not self._has_ended:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

"""A detached process that outlives whoever started it, known again by its id and start time."""

import contextlib
import os
import pathlib
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

SAME_START_S = 2.0  # a process id is not given out twice within this time; clocks are adjusted by less
LOG_LIMIT_BYTES = 10_000_000  # a log that grew beyond this is begun anew at the next start


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `started` (epoch seconds) tells it from a later one with the same id."""

    pid: int
    started: float

    def is_alive(self) -> bool:
        """Whether it still runs; a zombie that nobody has waited for does not."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START_S
            return same and process.status() != psutil.STATUS_ZOMBIE
        return False

    def rss_bytes(self) -> int:
        """Resident memory; 0 when it is gone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return int(psutil.Process(self.pid).memory_info().rss)
        return 0

    def stop(self, timeout_s: float) -> None:
        """SIGTERM, and SIGKILL to one that still lives after `timeout_s`. Nothing to do for a dead one."""
        for signal_process in (psutil.Process.terminate, psutil.Process.kill):
            if not self.is_alive():
                return
            with contextlib.suppress(psutil.NoSuchProcess):
                signal_process(psutil.Process(self.pid))
            _poll_while(self.is_alive, timeout_s)


def _poll_while(condition: Callable[[], bool], timeout_s: float) -> None:
    # psutil's own wait would wait for zombies too, until the system's first process collects them
    again, limit = retry_if_result(bool), stop_after_delay(timeout_s)
    Retrying(retry=again, stop=limit, wait=wait_fixed(0.02), retry_error_callback=lambda _: None)(condition)


def spawn(command: Sequence[str], log: pathlib.Path) -> Process:
    """Start `command` in a session of its own, with both outputs appended to `log`."""
    keep = log.exists() and log.stat().st_size <= LOG_LIMIT_BYTES
    with open(log, "ab" if keep else "wb") as output:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=os.fspath(log.parent),
        )
    child.returncode = 0  # detached: whether it lives is asked of the system, not of this object
    return Process(child.pid, psutil.Process(child.pid).create_time())


def tail(log: pathlib.Path, lines: int = 8) -> str:
    """The last lines of a log, for an error message."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])

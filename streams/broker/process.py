"""A detached process that outlives its parent, identified by its id and start time."""

import contextlib
import os
import pathlib
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

SAME_START_S = 2.0  # a process id is not given out twice within this time; clocks are adjusted by less
LINE_LIMIT = 300  # characters of a log line in an error message

Say = Callable[[str], None]  # gets a line for what takes long

_CAUSE = re.compile(r"(Caused by: |Error: |Exception in |\S+(Exception|Error): )")


@dataclass(frozen=True, slots=True)
class Process:
    """A process; `started` (epoch seconds) distinguishes it from a later one with the same id."""

    pid: int
    started: float

    def is_alive(self) -> bool:
        """Whether it still runs; False for a zombie that no process has waited for.

        After SIGKILL the first thread is a zombie before the others are gone, and until then its ports and file locks
        are held (measured: for up to 100 ms, on a loaded machine longer).
        """
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < SAME_START_S
            return bool(same and (process.status() != psutil.STATUS_ZOMBIE or process.num_threads() > 1))
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


def spawn(command: Sequence[str], log: pathlib.Path, variables: Mapping[str, str] | None = None) -> Process:
    """Start `command` in a session of its own, with both outputs in `log`; the log before that becomes `log`.1.

    `variables`: added to the environment that it gets from this process.
    """
    if log.exists():
        log.replace(log.with_name(log.name + ".1"))
    with open(log, "wb") as output:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=os.fspath(log.parent),
            env={**os.environ, **(variables or {})},
        )
    child.returncode = 0  # detached: whether it lives is asked of the system, not of this object
    return Process(child.pid, psutil.Process(child.pid).create_time())


def reasons(log: pathlib.Path, lines: int = 6) -> str:
    """Return the errors of a log and their causes, else its last lines, for an error message."""
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    complaints = [line for line in text if " ERROR " in line or " FATAL " in line or _CAUSE.match(line)]
    return "\n".join(line[:LINE_LIMIT] for line in (complaints or text)[-lines:])

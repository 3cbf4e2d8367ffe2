"""Ends a process whose job, or call of a client, hangs: its partitions then go to one that lives."""

import contextlib
import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

log = logging.getLogger(__name__)

HUNG = 70  # exit status of a hung process
Bite = Callable[[], None]  # what ends it


class Watchdog:
    """Between `begin` and `end` at most `limit_s` may pass. One thread watches as long as there is something to watch:
    one for each beginning took 0.8 ms."""

    def __init__(self, limit_s: float, bite: Bite | None = None, what: str = "a job (worker.job_limit_s)") -> None:
        self._limit_s, self._bite, self._what = limit_s, bite or (lambda: os._exit(HUNG)), what
        self._lock = threading.Lock()
        self._watching: threading.Thread | None = None
        self.since: float | None = None  # monotonic seconds; None: no job runs

    def begin(self) -> None:
        """A job starts."""
        with self._lock:
            self.since = time.monotonic()
            if self._watching is None:
                self._watching = threading.Thread(target=self._watch, daemon=True)
                self._watching.start()

    def end(self) -> None:
        """It has ended."""
        self.since = None

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    def is_overdue(self) -> bool:
        """A job runs for longer than it may, and the process has not ended over it."""
        since = self.since
        return since is not None and time.monotonic() - since > self._limit_s

    def _watch(self) -> None:
        since, left_s = self.since, self._limit_s
        while left_s > 0:
            time.sleep(left_s)
            with self._lock:
                since = self.since
                left_s = 0.0 if since is None else since + self._limit_s - time.monotonic()
                if left_s <= 0:
                    self._watching = None
        if since is not None:
            self._hang()

    def _hang(self) -> None:
        log.critical("%s took longer than %g s; ending the process", self._what, self._limit_s)
        tell_where()
        self._bite()


def tell_where() -> None:
    """Write what each thread is at to standard error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error may be no file
        faulthandler.dump_traceback()

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
    """Between `begin` and `end` at most `limit_s` may pass."""

    def __init__(self, limit_s: float, bite: Bite | None = None, what: str = "a job (worker.job_limit_s)") -> None:
        self._limit_s, self._bite, self._what = limit_s, bite or (lambda: os._exit(HUNG)), what
        self._armed: threading.Timer | None = None
        self.since: float | None = None  # monotonic seconds; None: no job runs

    def begin(self) -> None:
        """A job starts."""
        self.since = time.monotonic()
        self._armed = threading.Timer(self._limit_s, self._hang)
        self._armed.daemon = True
        self._armed.start()

    def end(self) -> None:
        """It has ended."""
        self.since = None
        if self._armed is not None:
            self._armed.cancel()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    def is_overdue(self) -> bool:
        """A job runs for longer than it may, and the process has not ended over it."""
        since = self.since
        return since is not None and time.monotonic() - since > self._limit_s

    def _hang(self) -> None:
        log.critical("%s took longer than %g s; ending the process", self._what, self._limit_s)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error may be no file
            faulthandler.dump_traceback()  # where it hangs
        self._bite()

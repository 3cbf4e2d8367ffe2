"""Ends a process whose job hangs: its partitions then go to a worker that lives."""

import logging
import os
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

HUNG = 70  # exit status of a hung worker


class Watchdog:
    """Between `begin` and `end` at most `limit_s` may pass."""

    def __init__(self, limit_s: float, bite: Callable[[], None] | None = None) -> None:
        self._limit_s, self._bite = limit_s, bite or (lambda: os._exit(HUNG))
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

    def is_overdue(self) -> bool:
        """A job runs for longer than it may, and the process has not ended over it."""
        since = self.since
        return since is not None and time.monotonic() - since > self._limit_s

    def _hang(self) -> None:
        log.critical("a job took longer than worker.job_limit_s = %g; ending the process", self._limit_s)
        self._bite()

"""Ends a process whose job, or call of a client, hangs: its partitions then go to one that lives."""

import contextlib
import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

log = logging.getLogger(__name__)

HUNG = 70  # exit status of a hung process
LAST_WORDS_S = 2.0  # for a last line to be logged
Bite = Callable[[], None]  # what ends it


class Watchdog:
    """Between `begin` and `end` at most `limit_s` may pass, not counting what `waits` is around. One thread watches as
    long as there is something to watch: one for each beginning took 0.8 ms."""

    def __init__(
        self,
        limit_s: float,
        bite: Bite | None = None,
        what: str = "a job (worker.job_timeout_s)",
        hangs: Callable[[], bool] = lambda: True,
    ) -> None:
        """`hangs`: whether what is overdue hangs; asked again after `limit_s` where it does not."""
        self._limit_s, self._hangs = limit_s, hangs
        self._bite = bite or (lambda: os._exit(HUNG))
        self._what = what
        self._lock = threading.Lock()
        self._watching: threading.Thread | None = None
        self._waiting = False
        self._counts_s = 0.0  # monotonic seconds from which the limit counts
        self.since: float | None = None  # monotonic seconds; None: no job runs

    def begin(self) -> None:
        """Start the time of a job."""
        with self._lock:
            self.since = self._counts_s = time.monotonic()
            self._waiting = False
            if self._watching is None:
                self._watching = threading.Thread(target=self._watch, daemon=True)
                self._watching.start()

    def end(self) -> None:
        """End the time of the job."""
        self.since = None

    @contextlib.contextmanager
    def waits(self) -> Iterator[None]:
        """Around waiting for what a new process would find as it is; the limit counts anew after it."""
        self._waiting = True
        try:
            yield
        finally:
            self._counts_s = time.monotonic()
            self._waiting = False

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.end()

    def is_overdue(self) -> bool:
        """A job runs for longer than it may, and the process has not ended over it."""
        return self.since is not None and self._left_s() < 0

    def _left_s(self) -> float:
        return self._limit_s if self._waiting else self._counts_s + self._limit_s - time.monotonic()

    def _watch(self) -> None:
        since, left_s = self.since, self._limit_s
        while left_s > 0:
            time.sleep(left_s)
            with self._lock:
                since = self.since
                left_s = 0.0 if since is None else self._left_s()
                if since is not None and left_s <= 0 and not self._hangs():
                    left_s = self._limit_s
                if left_s <= 0:
                    self._watching = None
        if since is not None:
            self._hang()

    def _hang(self) -> None:
        log_last(log, "%s took longer than %g s; ending the process", self._what, self._limit_s)
        report_stacks()
        self._bite()


def log_last(log: logging.Logger, message: str, *arguments: object) -> None:
    """Log a critical line, or give up after LAST_WORDS_S: a thread that hangs may hold the lock of logging."""
    speaker = threading.Thread(target=log.critical, args=(message, *arguments), daemon=True)
    speaker.start()
    speaker.join(LAST_WORDS_S)


def report_stacks() -> None:
    """Write what each thread is at to standard error."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # standard error may be no file
        faulthandler.dump_traceback()

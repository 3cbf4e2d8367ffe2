"""The time a process has between the signal to stop and its end; past it, what is in hand is left to others."""

import logging
import os
import threading
from collections.abc import Callable
from types import TracebackType

from streams.watchdog import tell_where

log = logging.getLogger(__name__)

CUT_SHORT = 1  # exit status of a process that did not finish in time


class Drain:
    """From `begin` to the end of the block at most `limit_s` may pass, or the process is ended.

    Whatever it had in hand is not committed, so others read it again: cut short, work is done twice but never lost.
    A thread watches, since what hangs may be the event loop, a client's call, or a client's close.
    """

    def __init__(self, limit_s: float, end: Callable[[int], None] = os._exit) -> None:
        self._limit_s, self._end = limit_s, end
        self._timer = threading.Timer(limit_s, self._cut_short)
        self._timer.daemon = True

    def begin(self) -> None:
        """The signal has come; further ones do not extend the time."""
        if self._timer.ident is None:
            log.info("stopping: %g s for the work in hand", self._limit_s)
            self._timer.start()

    def __enter__(self) -> "Drain":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._timer.cancel()
        if self._timer.ident is not None:
            self._timer.join()

    def _cut_short(self) -> None:
        busy = [t.name for t in threading.enumerate() if not t.daemon and t is not threading.main_thread()]
        who = ", ".join(busy) or "the stream roles or a client"
        log.critical("%s did not finish within drain_s = %g; ending the process", who, self._limit_s)
        tell_where()
        logging.shutdown()
        self._end(CUT_SHORT)

"""Freezes the vector store of a run for a while: it keeps its connections, answers no call, then goes on."""

import math
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from schemas.errors import PochadeError
from streams.settings import Settings
from streams.vectors import lite

Send = Callable[[int, signal.Signals], None]


class Frozen(NamedTuple):
    """When a store was frozen, in epoch ms; NaN if that has not happened."""

    began_ms: float = math.nan
    ended_ms: float = math.nan


class StoreFreezer:
    """Freezes a process once. Call `begin` and `check` from one thread, and `close` in any case."""

    def __init__(self, pid: Callable[[], int], lasts_s: float, clock_ms: Callable[[], float], send: Send = os.kill):
        """`pid`: of the store, asked when it is frozen; `lasts_s`: for how long; 0: never."""
        self._pid_of, self._lasts_ms, self._clock_ms, self._send = pid, 1000 * lasts_s, clock_ms, send
        self._pid: int | None = None  # while it is frozen
        self.frozen = Frozen()

    @property
    def is_to_come(self) -> bool:
        """Whether it is still to be frozen."""
        return self._lasts_ms > 0 and math.isnan(self.frozen.began_ms)

    def begin(self) -> None:
        """Freeze it. Raises PochadeError: it does not run."""
        self._pid = self._pid_of()
        self._send(self._pid, signal.SIGSTOP)
        self.frozen = Frozen(self._clock_ms())

    def check(self) -> bool:
        """Let it go on if its time is over; whether it was let go on now."""
        if self._pid is None or self._clock_ms() - self.frozen.began_ms < self._lasts_ms:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Let it go on if it is frozen: a frozen process could not be ended in peace."""
        if self._pid is not None:
            pid, self._pid = self._pid, None
            self._send(pid, signal.SIGCONT)
            self.frozen = self.frozen._replace(ended_ms=self._clock_ms())


def lite_pid(settings: Settings) -> int:
    """The process of the Milvus Lite of this home. Raises PochadeError: none runs."""
    running = lite.running(settings)
    if running is None or running.process is None:
        raise PochadeError(f"no Milvus Lite runs in {lite.vectors_home(settings)}: see its lite.log")
    return running.process.pid

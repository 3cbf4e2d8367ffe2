"""The broker's clock as the ledger last saw it, for deadlines. A machine whose own clock is off serves nothing."""

import time
from collections.abc import Callable

from schemas.errors import PochadeError
from streams import clock

MAX_OFFSET_MS = 60_000  # that a machine's clock may differ from the broker's


class ClockOff(PochadeError):
    """This machine's clock and the broker's differ by over a minute, so deadlines would pass at the wrong time."""


class BrokerClock:
    """Follows the times that brokers give records, and goes on by a monotonic clock between them. Thread-safe."""

    def __init__(
        self,
        wall_ms: Callable[[], int] = lambda: clock.now_ms(),
        steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._ahead_ms: int | None = None  # of the broker's clock over the steady one

    def observe(self, at_ms: int) -> None:
        """Note the time at which a broker just wrote a record. Raises ClockOff as `check`."""
        self._ahead_ms = at_ms - self._steady_ms()
        self.check()

    def now_ms(self) -> int:
        """Return the broker's time (epoch ms); this machine's before the first record."""
        return self._wall_ms() if self._ahead_ms is None else self._steady_ms() + self._ahead_ms

    def check(self) -> None:
        """Raise ClockOff if this machine's clock differs by over MAX_OFFSET_MS from the broker's."""
        off_ms = self._wall_ms() - self.now_ms()
        if abs(off_ms) > MAX_OFFSET_MS:
            raise ClockOff(
                f"this machine's clock is {off_ms / 1000:+.0f} s from the broker's, "
                f"more than {MAX_OFFSET_MS // 1000} s: "
                "deadlines would pass at the wrong time; run NTP on both machines"
            )

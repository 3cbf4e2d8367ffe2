"""The broker's time as the ledger last heard it: deadlines pass by it. A machine whose own is off serves nothing."""

import time
from collections.abc import Callable

from schemas.errors import PochadeError
from streams import clock

MAX_OFFSET_MS = 60_000  # that a machine's clock may differ from the broker's


class ClockOff(PochadeError):
    """This machine's clock and the broker's differ by more than a minute: deadlines would pass at the wrong time."""


class BrokerClock:
    """Told by the times that brokers give records, and carried on by a clock that nobody sets. Any thread may ask."""

    def __init__(
        self,
        wall_ms: Callable[[], int] = lambda: clock.now_ms(),
        steady_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._wall_ms = wall_ms
        self._steady_ms = steady_ms
        self._ahead_ms: int | None = None  # of the broker's clock over the steady one

    def observe(self, at_ms: int) -> None:
        """A broker took a record at this time, just now. Raises ClockOff as `check`."""
        self._ahead_ms = at_ms - self._steady_ms()
        self.check()

    def now_ms(self) -> int:
        """The broker's time; this machine's while none has been heard."""
        return self._wall_ms() if self._ahead_ms is None else self._steady_ms() + self._ahead_ms

    def check(self) -> None:
        """Raise ClockOff where this machine's clock is not the broker's."""
        off_ms = self._wall_ms() - self.now_ms()
        if abs(off_ms) > MAX_OFFSET_MS:
            raise ClockOff(
                f"this machine's clock is {off_ms / 1000:+.0f} s from the broker's, "
                f"more than {MAX_OFFSET_MS // 1000} s: "
                "deadlines would pass at the wrong time; run NTP on both machines"
            )

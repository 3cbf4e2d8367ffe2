"""How far a member of a consumer group is: what it waits for before it can serve."""

import time
from collections.abc import Callable

STANDBY_S = 10  # a member without partitions for so long is a spare one, and ready to be


class Membership:
    """Written by the thread that polls, read by any."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._waits_for, self._failure = "the broker", ""
        self._idle_since_s: float | None = None  # since when it is a member without partitions

    def leaves(self) -> None:
        """A session begins or begins again; what ended the one before is told until this one has partitions."""
        self._waits_for, self._idle_since_s = "the broker", None

    def fails(self, why: str) -> None:
        """A session has ended by this."""
        self.leaves()
        self._failure = why

    def has(self, partitions: int) -> None:
        """It is a member, and so many partitions are served."""
        self._waits_for = "" if partitions else "partitions"
        self._failure = "" if partitions else self._failure
        self._idle_since_s = None if partitions else self._clock_s()

    def reads(self, what: str) -> None:
        """It gained a partition and has to read something first."""
        self._waits_for, self._idle_since_s = what, None

    def not_ready(self) -> str:
        """What it waits for; "" when it serves, or stands by because others have all the partitions."""
        since_s = self._idle_since_s
        stands_by = since_s is not None and self._clock_s() - since_s > STANDBY_S
        if not self._waits_for or stands_by:
            return ""
        return f"waits for {self._waits_for}" + (f": {self._failure}" if self._failure else "")

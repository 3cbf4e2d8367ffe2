"""Leader election of planners: the newest leads; the others stand by, and one of them leads when it falls silent."""

import logging
from collections.abc import Callable, Sequence

from agents.planner import ROLE
from schemas.record import Outgoing
from streams import metrics
from streams.kafka.transactions.barrier import Barrier
from streams.kafka.transactions.lease import Lease, LeaseLost

log = logging.getLogger(__name__)

BEAT_MS = 1000  # longest time until a planner learns that another one leads
POLL_MS = 500  # how often one that stands by looks for the leader's beat


class Leadership:
    """The state of one planner in leader election. Times are a monotonic clock's, in ms; beats are in epoch ms.

    new ---- takes the lease ----> LEADS ---- overtaken, or the broker refuses ----> STANDS BY
                                     ^                                                   |
                                     +---- no new beat for `silent_ms`, or resigned -----+
    """

    def __init__(self, lease: Lease, silent_ms: int, epoch_ms: Callable[[], int]) -> None:
        self._lease = lease
        self._silent_ms = silent_ms
        self._epoch_ms = epoch_ms
        self.is_leading = self._stands_by = False
        self._beat_ms = self._look_ms = self._heard_ms = 0
        self._heard = 0  # the leader's newest beat
        self.barrier: Barrier | None = None  # once it has led: what was planned before lies before it

    def leads(self, now_ms: int) -> bool:
        """Return whether this planner leads now; beats if it does, takes the lease if it may.

        Raises:
            PochadeError: the broker does not answer; nothing has changed.
        """
        if self.is_leading:
            self._beat(now_ms)
        elif not self._stands_by or self._is_silent(now_ms):
            self.barrier = self._lease.take()
            self.is_leading = True
            log.info("this planner leads")
            self._beat(now_ms)
        return self.is_leading

    def write(self, records: Sequence[Outgoing]) -> bool:
        """Write as the leader, with a beat; return False, with nothing written, if it no longer leads."""
        try:
            self._lease.write(records, self._epoch_ms())
        except LeaseLost as error:
            self._step_back(error)
        return self.is_leading

    def _beat(self, now_ms: int) -> None:
        if now_ms - self._beat_ms >= BEAT_MS or not self._beat_ms:
            self._beat_ms = now_ms
            self.write(())

    def _step_back(self, error: LeaseLost) -> None:
        log.warning("this planner stands by: %s", error)
        metrics.FALLBACKS.labels(ROLE, "stands-by").inc()
        self.is_leading, self._stands_by, self._heard, self._look_ms = False, True, -1, 0

    def _is_silent(self, now_ms: int) -> bool:
        if self._look_ms and now_ms - self._look_ms < POLL_MS:
            return False
        self._look_ms, beat = now_ms, self._lease.last_beat()
        if beat != self._heard:
            self._heard, self._heard_ms = beat, now_ms
        return beat == 0 or now_ms - self._heard_ms >= self._silent_ms

    def resign(self, records: Sequence[Outgoing] = ()) -> None:
        """Write the last records and stand by, so that another planner leads without waiting for silence."""
        if self.is_leading:
            self.is_leading, self._stands_by = False, True
            try:
                self._lease.write(records, 0)
            except LeaseLost as error:
                log.info("nothing to resign from: %s", error)

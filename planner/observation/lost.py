"""What became of a request whose worker does not live any more, for clients and operators."""

from collections.abc import Mapping
from typing import NamedTuple

from planner.observation.workers import GONE, STOPPED, ReceivedHeartbeat, standing_of


class Begun(NamedTuple):
    """The worker that has begun a request."""

    worker_id: str
    variant: str
    at_ms: float  # epoch ms


class Lost(NamedTuple):
    """A request whose worker does not live any more, or has handed it back: it is generated again."""

    begun: Begun
    what: str  # became of the worker
    lease_left_ms: float  # until the queues of a silent worker go to others; 0: they have

    def in_words(self, *, is_served: bool, names_worker: bool = False) -> str:
        """Say it with what comes next. `is_served`: another worker serves the variant."""
        who = f"its worker {self.begun.worker_id:.80}" if names_worker else "its worker"
        if not is_served:
            return f"{who} {self.what}; no worker serves {self.begun.variant}; it waits"
        when = f" when the lease ends in {self.lease_left_ms / 1000:.0f} s" if self.lease_left_ms else ""
        return f"{who} {self.what}; it is generated again{when}"


def lost(
    begun: Begun, heartbeats: Mapping[str, ReceivedHeartbeat], now_ms: int, silent_ms: int, lease_ms: int
) -> Lost | None:
    """Return what became of the worker that has begun a request; None if it generates it, as far as is known.

    `lease_ms`: silence after which the group gives a worker's queues to others.
    """
    if not begun.worker_id:
        return None
    beat = heartbeats.get(begun.worker_id)
    if beat is None:
        return Lost(begun, "has not reported", 0.0)
    if standing_of(beat, now_ms, silent_ms) == "silent":
        silence_ms = now_ms - beat.seen_ms
        return Lost(begun, f"has not reported for {silence_ms / 1000:.0f} s", max(0.0, lease_ms - silence_ms))
    if beat.heartbeat.state in GONE:
        return Lost(begun, {STOPPED: "has stopped"}.get(beat.heartbeat.state, f"is {beat.heartbeat.state}"), 0.0)
    if beat.heartbeat.started_ms > begun.at_ms:
        return Lost(begun, "was started anew", 0.0)
    return None

"""Reads lookups of a run from heartbeats: their longest times, and which breakers opened."""

from typing import Any

from planner.reuse.lookups.health import CLOSED
from schemas.errors import InvalidRecord
from schemas.messages import Heartbeat
from schemas.record import Incoming
from streams.codec.avro import decode


class LookupWatch:
    """Takes in heartbeats in any order."""

    def __init__(self) -> None:
        self._max_p95_ms = 0.0
        self._breakers: dict[str, set[str]] = {}  # why one was open -> workers

    def on_record(self, record: Incoming) -> None:
        """Take a heartbeat; what is none says nothing."""
        try:
            beat = decode(record.value, Heartbeat)
        except InvalidRecord:
            return
        if beat.reuse is None:
            return
        self._max_p95_ms = max(self._max_p95_ms, beat.reuse.p95_ms)
        if beat.reuse.breaker != CLOSED:
            self._breakers.setdefault(beat.reuse.breaker, set()).add(beat.worker_id)

    def report(self) -> dict[str, Any]:
        """Return it for a report: the largest p95 of a worker's last lookups, probes among them, and open breakers."""
        return {
            "max_p95_ms": self._max_p95_ms,
            "breakers": {why: sorted(workers) for why, workers in sorted(self._breakers.items())},
        }

"""Reads components of a run from heartbeats: bytes moved between tiers, and exceeded budgets."""

from collections import Counter
from typing import Any

from schemas.errors import InvalidRecord
from schemas.messages import Heartbeat, WorkerComponents
from schemas.record import Incoming
from streams.codec.avro import decode


class TierWatch:
    """Takes in heartbeats, each worker's in its order. Counters of a worker that was started again begin at 0."""

    def __init__(self) -> None:
        self._last: dict[str, WorkerComponents] = {}
        self._moved, self._hits, self._loads = Counter[str](), Counter[str](), 0  # of processes that have ended
        self.exceeded: dict[str, str] = {}  # worker and tier -> a sentence, about the worst

    def on_record(self, record: Incoming) -> None:
        """Take a heartbeat; what is none says nothing."""
        try:
            beat = decode(record.value, Heartbeat)
        except InvalidRecord:
            return
        found = beat.components
        if found is None:
            return
        before = self._last.get(beat.worker_id)
        if before is not None and sum(found.hits.values()) < sum(before.hits.values()):
            self._add(before)
        self._last[beat.worker_id] = found
        for tier, size in found.held_bytes.items():
            if size > (most := found.budget_bytes.get(tier, size)):
                self.exceeded[f"{beat.worker_id} {tier}"] = f"{beat.worker_id} held {size} bytes of {most} in {tier}"

    def _add(self, found: WorkerComponents) -> None:
        self._moved.update(found.moved_bytes)
        self._hits.update(found.hits)
        self._loads += found.loads

    def report(self) -> dict[str, Any]:
        """Return it for a report: bytes moved into each tier, the tiers that held what jobs needed, and loads."""
        total = TierWatch()
        for each in (
            WorkerComponents(moved_bytes=self._moved, hits=self._hits, loads=self._loads),
            *self._last.values(),
        ):
            total._add(each)
        return {
            "moved_bytes": dict(sorted(total._moved.items())),
            "hits": dict(sorted(total._hits.items())),
            "loads": total._loads,
            "exceeded": sorted(self.exceeded.values()),
        }

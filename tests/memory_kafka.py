"""In-memory stand-ins for the Kafka edges, held to the same contract tests as the real ones."""

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from schemas.record import Delivered, Outgoing
from streams.kafka.transactions.barrier import Barrier
from streams.kafka.transactions.lease import LeaseLost


class MemoryRecordProducer:
    """`RecordProducer` that keeps what was sent, per topic, in order; partition 0 unless one is named."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Outgoing]] = {}
        self._ends: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()

    def send(self, record: Outgoing) -> Future[Delivered]:
        with self._lock:
            self.topics.setdefault(record.topic, []).append(record)
            place = record.topic, record.partition or 0
            offset = self._ends[place]
            self._ends[place] += 1
        future: Future[Delivered] = Future()
        future.set_result(Delivered(partition=place[1], offset=offset))
        return future

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class LeaseBoard:
    """The state that `MemoryLease`s share, in place of a broker."""

    epoch: int = 0
    beat: int = 0
    records: list[Outgoing] = field(default_factory=list)


class MemoryLease:
    """A `Lease` in memory, without a broker."""

    def __init__(self, shared: LeaseBoard | None = None) -> None:
        self.shared = shared or LeaseBoard()
        self._epoch = -1

    def take(self) -> Barrier:
        self.shared.epoch += 1
        self._epoch = self.shared.epoch
        return Barrier(len(self.shared.records), self.shared.beat)

    def write(self, records: Sequence[Outgoing], beat: int) -> None:
        if self._epoch != self.shared.epoch:
            raise LeaseLost("a newer planner leads")
        self.shared.records += records
        self.shared.beat = beat

    def last_beat(self) -> int:
        return self.shared.beat

    def close(self) -> None:
        """Nothing is held."""

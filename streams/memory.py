"""Shipped in-memory stand-ins for the Kafka edges, held to the same contract tests as the real ones."""

import threading
from concurrent.futures import Future

from schemas.record import Delivered, Outgoing


class MemoryRecordProducer:
    """`RecordProducer` that keeps what was sent, per topic, in order; partition 0 unless one is named."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Outgoing]] = {}
        self._lock = threading.Lock()

    def send(self, record: Outgoing) -> Future[Delivered]:
        with self._lock:
            log = self.topics.setdefault(record.topic, [])
            partition = record.partition or 0
            offset = sum(1 for other in log if (other.partition or 0) == partition)
            log.append(record)
        future: Future[Delivered] = Future()
        future.set_result(Delivered(partition=partition, offset=offset))
        return future

    def close(self) -> None:
        """Nothing is held."""

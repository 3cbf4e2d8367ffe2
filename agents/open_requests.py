"""Requests with a deadline that have been classified: what the ledger ends itself when nobody else does."""

import heapq
import threading
from collections import defaultdict

from planner.outcomes import is_overdue
from schemas.record import Incoming
from streams.headers import DEADLINE

MOST_DIGITS = 19  # of 64 bits
FORGET_MS = 60 * 60 * 1000  # an overdue request of a partition that is not ours: its owner has long ended it

Entry = tuple[int, int, Incoming]  # (deadline, tie-breaker, classified record)


class OpenRequests:
    """By partition, the earliest deadline first. Fed by a follower's thread, asked by the ledger's.

    Only the header is read, so that a million records are taken in within seconds; a record is decoded when its
    request is overdue. Those that ended in time are still here until their deadline: whoever asks knows what has ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heaps: defaultdict[int, list[Entry]] = defaultdict(list)
        self._taken = 0

    def on_record(self, record: Incoming) -> None:
        """Take in a record of `classified`; one without a deadline never expires."""
        deadline = record.headers.get(DEADLINE, b"")
        if deadline.isdigit() and len(deadline) <= MOST_DIGITS:
            with self._lock:
                self._taken += 1
                heapq.heappush(self._heaps[record.partition], (int(deadline), self._taken, record))

    def overdue(self, partition: int, now_ms: int, grace_ms: int) -> list[Incoming]:
        """The records of one partition whose deadline passed more than a grace ago; each is handed over once."""
        with self._lock:
            return _pop(self._heaps[partition], now_ms, grace_ms)

    def forget(self, now_ms: int) -> None:
        """Drop what nobody asked for long after its deadline."""
        with self._lock:
            for heap in self._heaps.values():
                _pop(heap, now_ms, FORGET_MS)

    def __len__(self) -> int:
        return sum(len(heap) for heap in self._heaps.values())


def _pop(heap: list[Entry], now_ms: int, grace_ms: int) -> list[Incoming]:
    popped = []
    while heap and is_overdue(heap[0][0], now_ms, grace_ms):
        popped.append(heapq.heappop(heap)[2])
    return popped

"""Requests with a deadline that have been classified and have not ended: what the ledger ends itself when nobody does.

Of each only (deadline, digest of the id, where its record lies) is kept, about 300 bytes, and only while it is open:
the record is read again when the request is overdue.
"""

import heapq
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from planner.serving.ended_ids import DIGEST_BYTES, digest_of
from planner.serving.outcomes import is_overdue
from schemas.record import Incoming
from streams import metrics
from streams.codec.headers import DEADLINE

MOST_DIGITS = 19  # of 64 bits
TOLD = 1000  # open requests that a checkpoint names; a follower reads on before all others
ENTRY = struct.Struct(f">{DIGEST_BYTES}sqq")  # digest, deadline, offset
SLACK = 1000  # ended ones whose deadlines are still waited for, until they are swept out

Known = Callable[[Sequence[bytes]], set[bytes]]


class Checkpoint(NamedTuple):
    """Where on `classified` a follower may begin: what lies before has ended, has no deadline, or is in `open`."""

    offset: int
    open: bytes  # packed entries


class Open(NamedTuple):
    """A request that nobody has ended."""

    deadline_ms: int
    digest: bytes
    offset: int  # of its record on `classified`


class OpenRequests:
    """Those of one partition. Not thread-safe."""

    def __init__(self, most_ahead_ms: int) -> None:
        """`most_ahead_ms`: of a deadline, when its request came; one that is further ahead is not waited for."""
        self._most_ahead_ms = most_ahead_ms
        self._open: dict[bytes, Open] = {}  # in the order of their offsets
        self._deadlines: list[Open] = []  # a heap; some have ended
        self._next = -1  # offset that is to be read next; -1: nothing was read

    def __len__(self) -> int:
        return len(self._open)

    def resume(self, checkpoint: Checkpoint, known: Known) -> None:
        """Begin at a checkpoint."""
        whole = len(checkpoint.open) // ENTRY.size * ENTRY.size
        entries = [Open(at, digest, offset) for digest, at, offset in ENTRY.iter_unpack(checkpoint.open[:whole])]
        ended = known([entry.digest for entry in entries])
        self._add(entry for entry in entries if entry.digest not in ended)
        self._next = checkpoint.offset

    def take(self, records: Sequence[Incoming], known: Known, since_ms: int) -> None:
        """Take in records of `classified`, in their order; whether those before `since_ms` ended nobody can tell."""
        entries = [entry for record in records if (entry := self._entry(record, since_ms))]
        ended = known([entry.digest for entry in entries]) if entries else set()
        self._add(entry for entry in entries if entry.digest not in ended)
        if records:
            self._next = records[-1].offset + 1

    def _entry(self, record: Incoming, since_ms: int) -> Open | None:
        """None: it has no deadline, or one that no role of ours lets in."""
        deadline = record.headers.get(DEADLINE, b"")
        if not deadline.isdigit() or len(deadline) > MOST_DIGITS or record.timestamp_ms < since_ms:
            return None
        if int(deadline) - record.timestamp_ms > self._most_ahead_ms:
            metrics.FALLBACKS.labels("ledger", "deadline-too-far").inc()
            return None
        return Open(int(deadline), digest_of(record.key or b""), record.offset)

    def _add(self, entries: Iterable[Open]) -> None:
        for entry in entries:
            if entry.digest not in self._open:  # a request may have been classified twice
                self._open[entry.digest] = entry
                heapq.heappush(self._deadlines, entry)

    def end(self, digests: Iterable[bytes]) -> None:
        """These have ended."""
        for digest in digests:
            self._open.pop(digest, None)
        if len(self._deadlines) > 2 * len(self._open) + SLACK:
            self._deadlines = list(self._open.values())
            heapq.heapify(self._deadlines)

    def overdue(self, now_ms: int, grace_ms: int, most: int) -> list[Open]:
        """Some whose deadlines passed more than a grace ago, the earliest first; they stay until they end."""
        found: list[Open] = []
        while self._deadlines and len(found) < most and is_overdue(self._deadlines[0].deadline_ms, now_ms, grace_ms):
            entry = heapq.heappop(self._deadlines)
            if entry.digest in self._open:
                found.append(entry)
        return found

    def again(self, entries: Iterable[Open]) -> None:
        """They could not be ended: they are overdue still."""
        for entry in entries:
            heapq.heappush(self._deadlines, entry)

    def checkpoint(self) -> Checkpoint | None:
        """Where another may begin; None: nothing has been read."""
        if self._next < 0:
            return None
        told = list(islice(self._open.values(), TOLD + 1))
        offset = told[TOLD].offset if len(told) > TOLD else self._next
        return Checkpoint(
            offset, b"".join(ENTRY.pack(each.digest, each.deadline_ms, each.offset) for each in told[:TOLD])
        )

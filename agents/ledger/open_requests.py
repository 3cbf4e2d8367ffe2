"""Open requests with a deadline, which the ledger ends itself once they are overdue.

`classified` is followed from the offset in a chunk of ended ids (`OpenRequests.checkpoint`), else from the beginning of
the window: older requests may have ended and be forgotten.

Each open request takes about 300 bytes: deadline, digest of the id, offset of its record, which is read again when the
request is overdue.
"""

import heapq
import logging
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents.ledger.partition import LedgerPartition
from agents.ledger.remembered import Checkpoint
from planner.serving.deadlines import is_overdue
from planner.serving.ending.ledger import ROLE
from schemas import topics
from schemas.ids import DIGEST_BYTES, digest_of
from schemas.record import Incoming
from schemas.topics import full_name
from streams import metrics
from streams.codec.headers import DEADLINE
from streams.kafka.clients import ClusterSettings
from streams.kafka.consumers.consumer_factory import open_consumer
from streams.kafka.consumers.polling import incoming, offsets_at, poll_records
from streams.kafka.transactions.barrier import PREFETCHED_KB, open_reader

log = logging.getLogger(__name__)

MAX_DIGITS = 19  # of 64 bits
MAX_CHECKPOINT = 1000  # open requests that a checkpoint names; a follower reads on before all others
ENTRY = struct.Struct(f">{DIGEST_BYTES}sqq")  # digest, deadline, offset
SLACK = 1000  # ended ones whose deadlines are still waited for, until they are swept out
BATCH = 2000  # records of `classified` that are taken in at once
AT_ONCE = 200  # overdue requests that are ended together: their records are at most some megabytes
ANSWER_S = 10.0
LIMIT_S = 10.0  # for the records of overdue requests to be read again
NEAR = 500  # records that are read over sooner than a new place is looked up
REREAD_BATCH = 500  # records that are read again at once

Known = Callable[[Sequence[bytes]], set[bytes]]
End = Callable[[list[Incoming]], list[str]]  # ends overdue requests; their ids


class Open(NamedTuple):
    """An open request."""

    deadline_ms: int
    digest: bytes
    offset: int  # of its record on `classified`


class OpenRequests:
    """The open requests of one partition. Not thread-safe."""

    def __init__(self, most_ahead_ms: int) -> None:
        """`most_ahead_ms`: max time from a request's arrival to its deadline; later deadlines are ignored."""
        self._most_ahead_ms = most_ahead_ms
        self._open: dict[bytes, Open] = {}  # in the order of their offsets
        self._deadlines: list[Open] = []  # a heap; some have ended
        self._next = -1  # offset that is to be read next; -1: nothing was read

    def __len__(self) -> int:
        return len(self._open)

    def resume(self, checkpoint: Checkpoint, known: Known) -> None:
        """Resume from a checkpoint."""
        whole = len(checkpoint.open) // ENTRY.size * ENTRY.size
        entries = [Open(at, digest, offset) for digest, at, offset in ENTRY.iter_unpack(checkpoint.open[:whole])]
        ended = known([entry.digest for entry in entries])
        self._add(entry for entry in entries if entry.digest not in ended)
        self._next = checkpoint.offset

    def take(self, records: Sequence[Incoming], known: Known, since_ms: int) -> None:
        """Take in records of `classified` in order; those before `since_ms` are skipped, as they may have ended."""
        entries = [entry for record in records if (entry := self._entry(record, since_ms))]
        ended = known([entry.digest for entry in entries]) if entries else set()
        self._add(entry for entry in entries if entry.digest not in ended)
        if records:
            self._next = records[-1].offset + 1

    def _entry(self, record: Incoming, since_ms: int) -> Open | None:
        """Return the entry of a request; None if it has no deadline, or one that is not valid."""
        deadline = record.headers.get(DEADLINE, b"")
        if not deadline.isdigit() or len(deadline) > MAX_DIGITS or record.timestamp_ms < since_ms:
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
        """Remove requests that have ended."""
        for digest in digests:
            self._open.pop(digest, None)
        if len(self._deadlines) > 2 * len(self._open) + SLACK:
            self._deadlines = list(self._open.values())
            heapq.heapify(self._deadlines)

    def overdue(self, now_ms: int, grace_ms: int, most: int) -> list[Open]:
        """Return up to `most` requests past deadline and grace, the earliest first; they stay until they end."""
        found: list[Open] = []
        while self._deadlines and len(found) < most and is_overdue(self._deadlines[0].deadline_ms, now_ms, grace_ms):
            entry = heapq.heappop(self._deadlines)
            if entry.digest in self._open:
                found.append(entry)
        return found

    def restore(self, entries: Iterable[Open]) -> None:
        """Put back requests that could not be ended: they are still overdue."""
        for entry in entries:
            heapq.heappush(self._deadlines, entry)

    def checkpoint(self) -> Checkpoint | None:
        """Return the offset at which another ledger may begin to read; None if nothing has been read."""
        if self._next < 0:
            return None
        first = list(islice(self._open.values(), MAX_CHECKPOINT + 1))
        offset = first[MAX_CHECKPOINT].offset if len(first) > MAX_CHECKPOINT else self._next
        return Checkpoint(
            offset, b"".join(ENTRY.pack(each.digest, each.deadline_ms, each.offset) for each in first[:MAX_CHECKPOINT])
        )


class Expiry:
    """The open requests of the partitions that a session owns, and the end of those whose deadlines have passed.

    Not thread-safe.
    """

    def __init__(self, cluster: ClusterSettings, grace_ms: int, most_ahead_ms: int) -> None:
        """`grace_ms`: after a deadline, for an outcome on its way. `most_ahead_ms`: as in `OpenRequests`."""
        self._topic = full_name(cluster.kafka.prefix, topics.CLASSIFIED)
        self._prefix = cluster.kafka.prefix
        self._grace_ms = grace_ms
        self._most_ahead_ms = most_ahead_ms
        self._open: dict[int, OpenRequests] = {}
        self._again = Rereader(cluster, self._topic)
        self._cluster = cluster
        self._consumer: Consumer | None = None

    def follow(self, lanes: Mapping[int, LedgerPartition]) -> None:
        """Begin to follow partitions that were assigned."""
        if self._consumer is None:
            kept = {"queued.max.messages.kbytes": PREFETCHED_KB}
            self._consumer = open_consumer(self._cluster, f"{ROLE}.open", kept)
        starts = []
        for partition, lane in lanes.items():
            requests = self._open[partition] = OpenRequests(self._most_ahead_ms)
            lane.remembered.checkpoint = requests.checkpoint
            if (resume := lane.remembered.resume) is not None:
                requests.resume(resume, lane.ended.known)
                starts.append(TopicPartition(self._topic, partition, resume.offset))
            else:
                starts.append(self._window_start(self._consumer, partition, lane.ended.since_ms()))
        self._consumer.incremental_assign(starts)

    def _window_start(self, consumer: Consumer, partition: int, since_ms: int) -> TopicPartition:
        """Return the offset at which the window begins; the log's beginning if the broker knows no record so young."""
        found = offsets_at(consumer, self._topic, [partition], since_ms, ANSWER_S)
        return TopicPartition(self._topic, partition, max(0, found[partition]))

    def leave(self, partitions: Iterable[int]) -> None:
        """Stop following partitions that were revoked."""
        left = [
            TopicPartition(self._topic, partition)
            for partition in partitions
            if self._open.pop(partition, None) is not None
        ]
        if self._consumer is not None and left:
            self._consumer.incremental_unassign(left)

    def read_on(self, lanes: Mapping[int, LedgerPartition]) -> bool:
        """Read records of `classified`; return whether more may be waiting."""
        if self._consumer is None:
            return False
        polled = poll_records(self._consumer, BATCH, 0)
        records = [incoming(message, self._prefix) for message in polled.records]
        records.sort(key=lambda r: (r.partition, r.offset))
        for partition, run in groupby(records, key=lambda r: r.partition):
            if partition in self._open:
                ended = lanes[partition].ended
                self._open[partition].take(list(run), ended.known, ended.since_ms())
        return len(polled.records) == BATCH

    def ended(self, partition: int, ids: Sequence[str]) -> None:
        """Remove requests that have a result."""
        if partition in self._open:
            self._open[partition].end(digest_of(each.encode()) for each in ids)

    def end_overdue(self, partition: int, now_ms: int, end: End) -> int:
        """End up to AT_ONCE overdue requests; return how many were found."""
        if (requests := self._open.get(partition)) is None:
            return 0
        if not (overdue := requests.overdue(now_ms, self._grace_ms, AT_ONCE)):
            return 0
        try:
            records = self._again.read(partition, [entry.offset for entry in overdue])
        except KafkaException as error:
            requests.restore(overdue)
            metrics.FALLBACKS.labels(ROLE, "overdue-unread").inc()
            log.warning("overdue requests cannot be read again yet: %s", error)
            return 0
        try:
            ended = end(records)
        except Exception:
            requests.restore(overdue)  # the session ends; should it not, they are overdue still
            raise
        requests.end(entry.digest for entry in overdue)  # also those that are gone, or are no requests
        return len(ended)

    def close(self) -> None:
        """Release the clients."""
        self._again.close()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class Rereader:
    """Reads the records of overdue requests on `classified` again, by their offsets.

    One client, created when first needed. Not thread-safe.
    """

    def __init__(self, cluster: ClusterSettings, topic: str) -> None:
        """`topic`: full name, with the prefix."""
        self._cluster = cluster
        self._topic = topic
        self._consumer: Consumer | None = None

    def read(self, partition: int, offsets: Sequence[int]) -> list[Incoming]:
        """Return the records at these offsets; deleted ones are left out.

        Raises:
            KafkaException: the broker did not return them in time.
        """
        if self._consumer is None:
            self._consumer = open_reader(self._cluster, "ledger.again")
        found: dict[int, Incoming] = {}
        try:
            for run in _runs(sorted(offsets)):
                self._read_run(self._consumer, partition, run, found)
        finally:
            self._consumer.unassign()  # else it would fetch on, to the topic's end and there for ever
        return [found[offset] for offset in offsets if offset in found]

    def _read_run(self, consumer: Consumer, partition: int, run: Sequence[int], found: dict[int, Incoming]) -> None:
        wanted, end_s = set(run), time.monotonic() + LIMIT_S
        consumer.assign([TopicPartition(self._topic, partition, run[0])])
        while True:
            polled = poll_records(consumer, REREAD_BATCH, 0.1)
            for message in polled.records:
                if (offset := message.offset() or 0) in wanted:
                    found[offset] = incoming(message, self._cluster.kafka.prefix)
                if offset >= run[-1]:
                    return
            if any((end.offset() or 0) > run[-1] for end in polled.ends):
                return
            if time.monotonic() > end_s:
                what = f"{self._topic}/{partition} did not give {len(wanted)} records within {LIMIT_S:g} s"
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, what))

    def close(self) -> None:
        """Release the client."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _runs(offsets: Sequence[int]) -> list[list[int]]:
    """Return runs of neighbouring offsets."""
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][-1] <= NEAR:
            runs[-1].append(offset)
        else:
            runs.append([offset])
    return runs

"""The ended requests of one partition: read once from chunks on `ended`, and from results that they do not cover.

    results   |..... older than the window .....|===== chunks =====|----- read whole -----|barrier
    ended                                        [a, b) [b, c) ...  each some 65,000 ids in 12 bytes

A chunk is written for every 65,536 ids, also while uncovered results are read, so that a deployment without `ended`
reads all results only once. Chunks state facts about committed results: a missing or repeated one, or one by a former
owner, costs time and never a wrong answer. So they need no transaction.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from agents.ledger.broker_clock import BrokerClock
from agents.ledger.topics import LedgerTopics
from planner.serving.ending.ended_ids import SEALED, EndedIds
from planner.serving.ending.ledger import ROLE
from schemas.errors import InvalidRecord
from schemas.ids import DIGEST_BYTES, digest_of
from schemas.messages import EndedChunk
from schemas.record import Delivered, Outgoing
from schemas.topics import CLASSIFIED, ENDED, RESULTS, SKEW_MS
from streams import metrics
from streams.codec.avro import decode, encode
from streams.kafka.clients import ClusterSettings, topic_name
from streams.kafka.consumers.polling import offsets_at
from streams.kafka.transactions.barrier import Barrier, read_past, read_to_end

if TYPE_CHECKING:  # numpy, which is loaded with the first segment
    from planner.serving.ending.ended_segments import Segment

log = logging.getLogger(__name__)

ANSWER_S = 10.0
CHUNK_REST = 64_000  # bytes of a chunk for open requests (28,000), and for what a batch adds beyond a full one (24,000)
LATER = 8  # max chunks that wait to be written again; older ones are given up, and the next start reads their results

Send = Callable[[Outgoing], "Future[Delivered]"]


class Checkpoint(NamedTuple):
    """The offset of `classified` to begin reading at: earlier requests ended, lack a deadline, or are in `open`."""

    offset: int
    open: bytes  # packed entries


class Remembered:
    """The ended ids of one partition, within the window. Not thread-safe."""

    def __init__(
        self,
        cluster: ClusterSettings,
        partition: int,
        topics: LedgerTopics,
        clock: BrokerClock,
        send: Send | None = None,
    ) -> None:
        """`send`: writes chunks; None for no chunks."""
        self._cluster = cluster
        self._partition = partition
        self._topics = topics
        self._clock = clock
        self._send = send if topics.has_ended else None
        self.ids = EndedIds(_chunk_ids(topics.limits.of(ENDED)))
        self._covered: list[tuple[int, int]] = []  # by chunks: offsets of `results`, [first, end)
        self._first = self._end = 0  # of what has been taken in since the last chunk
        self._newest_ms = 0
        self._unwritten: list[tuple[Outgoing, Future[Delivered]]] = []
        self.resume: Checkpoint | None = None  # where a follower of `classified` may begin
        self.checkpoint: Callable[[], Checkpoint | None] = lambda: None  # of that follower, later

    # ------------------------------------------------------------------ recovering

    def read_chunks(self, reader: Consumer) -> None:
        """Read the chunks of the window. Without chunks, or without their topic, all results must be read."""
        if not self._topics.has_ended:
            return
        since_ms = self._clock.now_ms() - self._topics.window_ms - SKEW_MS
        try:
            start = _at(reader, topic_name(self._cluster, ENDED), self._partition, since_ms)
            if start is not None:
                read_to_end(reader, start, self._take_chunks)
        except KafkaException as error:
            metrics.FALLBACKS.labels(ROLE, "no-chunks").inc()
            log.warning("reading more of `results`, as chunks on `ended` cannot be read: %s", error)

    def begin(self, reader: Consumer, barrier: Barrier) -> None:
        """Read, after the chunks, the results that they do not cover, up to the barrier."""
        self._newest_ms = barrier.at_ms
        start = _at(reader, topic_name(self._cluster, RESULTS), self._partition, self._window_begins())
        self._end = _covered_to(start.offset if start else 0, self._covered, barrier.offset)
        self._first, self._covered = self._end, []
        self.read_on(reader, barrier)

    def read_on(self, reader: Consumer, barrier: Barrier) -> None:
        """Take in results committed since, by any owner, up to the barrier."""
        self._newest_ms = barrier.at_ms
        place = TopicPartition(topic_name(self._cluster, RESULTS), self._partition, self._end)
        read_past(reader, place, barrier, self._take_results)
        self.ids.forget(self._window_begins())

    def are_committed(self, reader: Consumer, first: int, ids: Sequence[str], barrier: Barrier) -> bool:
        """Whether readers find a result for each of these ids between the offset `first` and the barrier."""
        missing = {each.encode() for each in ids}
        place = TopicPartition(topic_name(self._cluster, RESULTS), self._partition, first)
        read_past(reader, place, barrier, lambda found: missing.difference_update(each.key() or b"" for each in found))
        return not missing

    def _window_begins(self) -> int:
        return self._newest_ms - self._topics.window_ms

    def _take_results(self, messages: Sequence[Message]) -> None:
        digests = [digest_of(message.key() or b"") for message in messages]
        at_ms = max(message.timestamp()[1] for message in messages)
        self._add(digests, min(at_ms, self._newest_ms), (messages[-1].offset() or 0) + 1)
        self._seal_full()

    def _take_chunks(self, messages: Sequence[Message]) -> None:
        for message in messages:
            try:
                chunk = decode(message.value(), EndedChunk)
                from planner.serving.ending.ended_segments import segment_of

                self.ids.add_segment(segment_of(chunk.digests, chunk.oldest_ms, chunk.newest_ms))
            except (InvalidRecord, ValueError):
                metrics.UNUSABLE.labels(ENDED).inc()
                log.exception("chunk %s/%d@%s cannot be used", ENDED, self._partition, message.offset())
                continue
            if self._is_of(RESULTS, chunk.results_topic) and chunk.partition == self._partition:
                self._covered.append((chunk.first_offset, chunk.end_offset))
            if chunk.classified_offset >= 0 and self._is_of(CLASSIFIED, chunk.classified_topic):
                self.resume = Checkpoint(chunk.classified_offset, chunk.open)

    def _is_of(self, topic: str, stated: str) -> bool:
        """Whether a stated topic id is that of the present topic; True if either id is unknown."""
        known = self._topics.ids.get(topic, "")
        return not stated or not known or stated == known

    # ------------------------------------------------------------------ remembering

    def add(self, ids: Iterable[str], at_ms: int, end: int) -> None:
        """Add requests that ended just now, by the broker's time; all results before the offset `end` are known."""
        self._newest_ms = at_ms
        self._seal_full()  # what was added before: only now its transaction is sure to have its marker
        self._add([digest_of(each.encode()) for each in ids], at_ms, end)
        self.ids.forget(self._window_begins())

    def _add(self, digests: Sequence[bytes], at_ms: int, end: int) -> None:
        self.ids.add(digests, at_ms)
        self._end = max(self._end, end)

    def _seal_full(self) -> None:
        if self.ids.is_full:
            self._write(self.ids.seal())

    def _write(self, segment: "Segment") -> None:
        first, self._first = self._first, self._end
        if self._send is None:
            return
        open_requests = self.checkpoint() or Checkpoint(-1, b"")
        chunk = EndedChunk(
            partition=self._partition, results_topic=self._topics.ids.get(RESULTS, ""), first_offset=first,
            end_offset=self._end, oldest_ms=segment.oldest_ms, newest_ms=segment.newest_ms, digests=segment.packed(),
            classified_topic=self._topics.ids.get(CLASSIFIED, ""), classified_offset=open_requests.offset,
            open=open_requests.open,
        )  # fmt: skip
        record = Outgoing(topic=ENDED, key=b"%d" % self._partition, value=encode(chunk), partition=self._partition)
        self._retry_chunks()
        self._unwritten.append((record, self._sent(record)))

    def _sent(self, record: Outgoing) -> "Future[Delivered]":
        assert self._send is not None
        return self._send(record)

    def _retry_chunks(self) -> None:
        """Write refused chunks once more; the oldest are given up."""
        waiting = []
        for record, future in self._unwritten:
            error = future.exception() if future.done() else None
            if error is not None:
                metrics.FALLBACKS.labels(ROLE, "chunk").inc()
                log.warning("a chunk of ended ids was not written, a next start reads their results: %s", error)
                future = self._sent(record)
            if error is not None or not future.done():
                waiting.append((record, future))
        self._unwritten = waiting[-LATER:]


def _chunk_ids(most_bytes: int) -> int:
    """Number of ids in a chunk that the topic takes."""
    return min(SEALED, max(1, (most_bytes - CHUNK_REST) // DIGEST_BYTES))


def _at(reader: Consumer, topic: str, partition: int, moment_ms: int) -> TopicPartition | None:
    """Return the offset of the first record at or after a time (epoch ms); None if there is none."""
    offset = offsets_at(reader, topic, [partition], max(0, moment_ms), ANSWER_S)[partition]
    return TopicPartition(topic, partition, offset) if offset >= 0 else None


def _covered_to(begin: int, covered: Iterable[tuple[int, int]], barrier: int) -> int:
    """Return the offset up to which chunks cover results from `begin` on without a gap."""
    end = begin
    for first, chunk_end in sorted(covered):
        if first <= end < chunk_end <= barrier:
            end = chunk_end
    return end

"""Which requests of the owned partitions are open, and the end of those whose deadlines have passed.

`classified` is followed from where a chunk of ended ids says (`OpenRequests.checkpoint`), else from the beginning of
the window: what is older may have ended and be forgotten.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agents.ledger.open_requests import OpenRequests
from agents.ledger.partition import Lane
from agents.ledger.reading_again import Rereader
from agents.ledger.remembered import NEW, ROLE
from planner.serving.ended_ids import digest_of
from schemas import topics
from schemas.record import Incoming
from schemas.topics import full_name
from streams import metrics
from streams.kafka.barrier import open_reader
from streams.kafka.consumer import incoming, poll_batch
from streams.kafka.errors import may_pass, patiently
from streams.settings import Settings

log = logging.getLogger(__name__)

BATCH = 2000  # records of `classified` that are taken in at once
AT_ONCE = 200  # overdue requests that are ended together: their records are at most some megabytes
ANSWER_S = 10.0

End = Callable[[list[Incoming]], list[str]]  # ends overdue requests; their ids


class Expiry:
    """Those of one session. Not thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._topic = full_name(settings.kafka.prefix, topics.CLASSIFIED)
        self._prefix = settings.kafka.prefix
        self._grace_ms = round(settings.ledger.grace_s * 1000)
        self._most_ahead_ms = round(settings.requests.max_deadline_s * 1000) + topics.SKEW_MS
        self._open: dict[int, OpenRequests] = {}
        self._again = Rereader(settings, self._topic)
        self._settings = settings
        self._consumer: Consumer | None = None

    def follow(self, lanes: Mapping[int, Lane]) -> None:
        """These partitions are owned from now on."""
        if self._consumer is None:
            self._consumer = open_reader(self._settings, f"{ROLE}.open")
        starts = []
        for partition, lane in lanes.items():
            requests = self._open[partition] = OpenRequests(self._most_ahead_ms)
            lane.ended.checkpoint = requests.checkpoint
            if (resume := lane.ended.resume) is not None:
                requests.resume(resume, lane.ended.known)
                starts.append(TopicPartition(self._topic, partition, resume.offset))
            else:
                starts.append(self._window_start(self._consumer, partition, lane.ended.since_ms()))
        self._consumer.incremental_assign(starts)

    def _window_start(self, consumer: Consumer, partition: int, since_ms: int) -> TopicPartition:
        """Where the window begins; the beginning of the log where whoever answers knows of nothing so young."""

        def look() -> TopicPartition:
            (found,) = consumer.offsets_for_times([TopicPartition(self._topic, partition, since_ms)], timeout=ANSWER_S)
            if found.error is not None:
                raise KafkaException(found.error)
            return TopicPartition(self._topic, partition, max(0, found.offset))

        return patiently(look, ANSWER_S, also=NEW)

    def leave(self, partitions: Iterable[int]) -> None:
        """These are somebody else's now."""
        left = [
            TopicPartition(self._topic, partition)
            for partition in partitions
            if self._open.pop(partition, None) is not None
        ]
        if self._consumer is not None and left:
            self._consumer.incremental_unassign(left)

    def read_on(self, lanes: Mapping[int, Lane]) -> bool:
        """Take in what has been classified; whether there may be more at once."""
        if self._consumer is None:
            return False
        messages = poll_batch(self._consumer, BATCH, 0)
        records = [incoming(message, self._prefix) for message in messages if not _is_error(message)]
        records.sort(key=lambda r: (r.partition, r.offset))
        for partition, run in groupby(records, key=lambda r: r.partition):
            if partition in self._open:
                ended = lanes[partition].ended
                self._open[partition].take(list(run), ended.known, ended.since_ms())
        return len(messages) == BATCH

    def ended(self, partition: int, ids: Sequence[str]) -> None:
        """These have a result."""
        if partition in self._open:
            self._open[partition].end(digest_of(each.encode()) for each in ids)

    def end_overdue(self, partition: int, now_ms: int, end: End) -> int:
        """End some that are overdue; how many there were."""
        if (requests := self._open.get(partition)) is None:
            return 0
        if not (overdue := requests.overdue(now_ms, self._grace_ms, AT_ONCE)):
            return 0
        try:
            records = self._again.read(partition, [entry.offset for entry in overdue])
        except KafkaException as error:
            requests.again(overdue)
            metrics.FALLBACKS.labels(ROLE, "overdue-unread").inc()
            log.warning("overdue requests cannot be read again yet: %s", error)
            return 0
        try:
            ended = end(records)
        except Exception:
            requests.again(overdue)  # the session ends; should it not, they are overdue still
            raise
        requests.end(entry.digest for entry in overdue)  # also those that are gone, or are no requests
        return len(ended)

    def close(self) -> None:
        """Release the clients."""
        self._again.close()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _is_error(message: Message) -> bool:
    """Whether it is no record. Raises KafkaException: what does not pass by itself."""
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF and not may_pass(error):
        raise KafkaException(error)
    return error is not None

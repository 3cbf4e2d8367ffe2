"""The largest record that each topic takes: the cluster's `max.message.bytes`, which may be below our largest record.

The one place to ask before a record is written. What is known belongs to the process (`LIMITS`): asked for at start and
each minute (`limit_questions.py`), and learnt from refusals where the cluster does not let us ask.
"""

import threading
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from schemas.record import Delivered, Outgoing
from schemas.topics import DLQ
from streams.kafka.producers.writing import MAX_BYTES, RecordProducer, RecordTooLarge, size_of

CONFIG = "max.message.bytes"  # of a batch with its framing, after compression
FRAME_BYTES = 100  # a batch's own 61 bytes, and at most 36 of a record's lengths and differences
MIN_BYTES = 100  # a limit below this takes no record of ours; it exists so that cutting a dead letter ends
SENDS_ALONE = 2  # of a record that should fit and was refused for its size: other records may have shared its batch


class TopicLimits:
    """The maximum bytes of a record, by topic (names without prefix). Thread-safe."""

    def __init__(self, max_message_bytes: Mapping[str, int] | None = None) -> None:
        """`max_message_bytes`: the known part of the topics' configuration."""
        self._lock = threading.Lock()
        self._configured = dict(max_message_bytes or {})
        self._refused: dict[str, int] = {}  # the most that has not been refused

    def of(self, topic: str) -> int:
        """Return the most that `size_of` a record for this topic may be; for an unknown topic, our own limit."""
        with self._lock:
            configured = self._configured.get(topic)
            refused = self._refused.get(topic, MAX_BYTES)
        return max(MIN_BYTES, min(MAX_BYTES, refused, MAX_BYTES if configured is None else configured - FRAME_BYTES))

    def check(self, record: Outgoing) -> None:
        """Raise RecordTooLarge for a record that its topic would not take, before it delays other records."""
        size, most = size_of(record), self.of(record.topic)
        if size > most:
            raise RecordTooLarge(
                f"a record for {record.topic} may have {most} bytes, headers included: got {size}; "
                f"{CONFIG} of the topic may be raised up to {MAX_BYTES + FRAME_BYTES}"
            )

    def batch_bytes(self, topics: Collection[str] | None = None) -> int:
        """Return the most bytes that a producer for these topics may put into one batch; larger ones are refused whole.

        `topics`: None: all that are known.
        """
        with self._lock:
            return min(
                (most for topic, most in self._configured.items() if topics is None or topic in topics),
                default=MAX_BYTES,
            )

    def refused(self, record: Outgoing, *, was_alone: bool = False) -> None:
        """Lower a topic's limit after a record was refused for its size; for dead letters, which can be cut, halve it.

        `was_alone`: the record had a batch of its own, so the topic's limit is below the configured one; else a refusal
        counts only if no limit is configured.
        """
        size = size_of(record)
        with self._lock:
            if was_alone or record.topic not in self._configured:
                limit = size // 2 if record.topic == DLQ else size - 1
                self._refused[record.topic] = min(limit, self._refused.get(record.topic, MAX_BYTES))

    def learn(self, max_message_bytes: Mapping[str, int]) -> None:
        """Replace the known configuration of topics by the cluster's."""
        with self._lock:
            self._configured = dict(max_message_bytes)
            self._refused.clear()


LIMITS = TopicLimits()  # what this process knows of its deployment's topics


def written(
    producer: RecordProducer, record: Outgoing, future: Future[Delivered], limit_s: float, limits: TopicLimits = LIMITS
) -> Delivered:
    """Return the position of a record that was sent; blocks up to `limit_s` seconds per send.

    A record that is refused for its size is sent again, as it may have shared its batch with too many.

    Raises:
        RecordTooLarge: it was refused by itself too; from now on `check` raises before it is sent.
        DeliveryFailed: it was not written.
    """
    for _ in range(SENDS_ALONE):
        try:
            return future.result(limit_s)
        except RecordTooLarge:
            if size_of(record) > limits.of(record.topic):
                break
            future = producer.send(record)
    try:
        return future.result(limit_s)
    except RecordTooLarge:
        limits.refused(record)
        raise


def batching(limits: TopicLimits = LIMITS) -> dict[str, int]:
    """Return the properties of a producer whose batches no known topic refuses."""
    size = limits.batch_bytes()
    return {"batch.size": size} if size < MAX_BYTES else {}

"""Reads the logs of requests to their current ends, so that a repetition finds its first try.

Calls during a reading share the next reading.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from confluent_kafka import KafkaException, Message, TopicPartition

from agents.gateway.repetitions.marks import TOPICS
from schemas.errors import PochadeError
from schemas.record import Incoming
from streams.clock import now_ms
from streams.kafka.clients import topic_name
from streams.kafka.consumers.polling import incoming
from streams.kafka.errors import partitions_of
from streams.kafka.transactions.barrier import open_reader, read_to_end
from streams.settings import Settings

ANSWER_S: Final = 5.0


class LogEnd:
    """Follows the logs' positions, and reads what is beyond them when asked."""

    def __init__(self, settings: Settings, on_record: Callable[[Incoming], None], window_ms: float) -> None:
        self._settings = settings
        self._on_record = on_record
        self._window_ms = window_ms
        self._next: dict[tuple[str, int], int] = {}  # (topic, partition) -> offset behind what was handed over
        self._running: asyncio.Task[None] | None = None
        self._pending: asyncio.Task[None] | None = None

    def on_record(self, record: Incoming) -> None:
        """Hand over a record of the follower or of a reading."""
        if record.topic in TOPICS:
            place = record.topic, record.partition
            self._next[place] = max(self._next.get(place, 0), record.offset + 1)
        self._on_record(record)

    async def reached(self) -> None:
        """Return once all records that lay on the logs at the call are handed over.

        Raises PochadeError: the broker does not answer.
        """
        if self._pending is None:
            self._pending = asyncio.create_task(self._read_after(self._running))
        await asyncio.shield(self._pending)

    async def _read_after(self, running: asyncio.Task[None] | None) -> None:
        if running is not None:
            await asyncio.wait([running])
        self._running, self._pending = self._pending, None
        await asyncio.to_thread(self._read)

    def _read(self) -> None:
        consumer = open_reader(self._settings, "follower")
        try:
            for topic in TOPICS:
                name = topic_name(self._settings, topic)
                for partition in partitions_of(consumer, name, ANSWER_S):
                    start = self._next.get((topic, partition))
                    if start is None:  # nothing of this while was handed over
                        asked = [TopicPartition(name, partition, now_ms() - round(self._window_ms))]
                        start = consumer.offsets_for_times(asked, timeout=ANSWER_S)[0].offset
                    if start >= 0:
                        read_to_end(consumer, TopicPartition(name, partition, start), self._hand_over)
        except KafkaException as error:
            raise PochadeError(f"could not read the requests to their end: {error.args[0].str()}") from error
        finally:
            consumer.close()

    def _hand_over(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.on_record(incoming(message, self._settings.kafka.prefix))

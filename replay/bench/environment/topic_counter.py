"""Counts what arrives on a topic, at little cost to what is measured: keys and times now, contents later."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from schemas.errors import PochadeError
from schemas.topics import full_name
from streams.kafka.consumers.consumer_factory import open_consumer
from streams.kafka.consumers.polling import take
from streams.settings import Settings

TICK_S = 0.02


class Arrival(NamedTuple):
    """A record that a reader of committed transactions received, and when."""

    key: bytes
    sent_ms: int  # epoch, when its producer was given it
    seen_ns: int  # epoch, when it was read
    value: bytes


class TopicCounter:
    """Reads topics in a thread until closed. `is_from_end`: only what comes from now on."""

    def __init__(self, settings: Settings, *topics: str, is_from_end: bool = False) -> None:
        self.arrivals: list[Arrival] = []
        self._keys: set[bytes] = set()
        self._stopping = threading.Event()
        self._consumer = open_consumer(settings, "tally", {"enable.partition.eof": False})
        names = [full_name(settings.kafka.prefix, topic) for topic in topics]
        self._consumer.assign([start for name in names for start in self._starts(name, is_from_end)])
        self._thread = threading.Thread(target=self._run, name="tally", daemon=True)
        self._thread.start()

    def _starts(self, name: str, is_from_end: bool) -> list[TopicPartition]:
        metadata = self._consumer.list_topics(name, timeout=10).topics[name]
        if metadata.error is not None:
            raise KafkaException(metadata.error)
        starts = [TopicPartition(name, partition, OFFSET_BEGINNING) for partition in metadata.partitions]
        if is_from_end:
            for start in starts:
                start.offset = self._end(start)
        return starts

    @retry(retry=retry_if_exception_type(KafkaException), wait=wait_fixed(0.1), stop=stop_after_delay(15), reraise=True)
    def _end(self, partition: TopicPartition) -> int:
        """End offset; the leader of a topic that was made just now may not know yet that it leads."""
        end: int = self._consumer.get_watermark_offsets(partition, timeout=10)[1]
        return end

    def _run(self) -> None:
        while not self._stopping.is_set():
            for message in take(self._consumer, 1000, 0.1):
                arrival = Arrival(message.key() or b"", message.timestamp()[1], time.time_ns(), message.value() or b"")
                self.arrivals.append(arrival)
                self._keys.add(arrival.key)

    def count(self) -> int:
        """Return the number of different keys seen."""
        return len(self._keys)

    def wait(self, count: int, timeout_s: float, on_tick: Callable[[], None] = lambda: None) -> None:
        """Block until `count` different keys have come.

        Raises:
            PochadeError: nothing new came for `timeout_s`.
        """
        before, end_s = -1, 0.0
        while (now := self.count()) < count:
            if now != before:
                before, end_s = now, time.monotonic() + timeout_s
            if time.monotonic() > end_s:
                raise PochadeError(f"only {now} of {count} records came, and none for {timeout_s:g} s")
            on_tick()
            time.sleep(TICK_S)

    def lost(self, keys: set[bytes]) -> int:
        """Return how many of these keys have not come."""
        return len(keys - self._keys)

    def duplicates(self) -> int:
        """Records beyond the first of a key."""
        return len(self.arrivals) - len(self._keys)

    def close(self) -> None:
        """Stop reading the topic."""
        self._stopping.set()
        self._thread.join()
        self._consumer.close()

    def __enter__(self) -> "TopicCounter":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

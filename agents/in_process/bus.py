"""Topics in memory: each record gets an offset and the time, and goes to those who read its topic."""

import asyncio
import logging
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from schemas.record import Delivered, Incoming, Outgoing
from streams.clock import now_ms

log = logging.getLogger(__name__)

Reader = Callable[[Incoming], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What may happen to records on their way to a role, drawn by a seed."""

    seed: int = 0
    max_delay_ms: float = 0.0  # each comes after a delay of its own, so that the order of a topic is lost
    repeated: float = 0.0  # share that a role is given twice, as after a death before a commit
    lost_heartbeats: float = 0.0  # share


class Bus:
    """The topics of one deployment, with one partition each unless a record names another. A `RecordProducer`."""

    def __init__(self, faults: Faults | None = None) -> None:
        """Belongs to the running event loop."""
        self._faults = faults or Faults()
        self._dice = random.Random(self._faults.seed)
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._ends: Counter[tuple[str, int]] = Counter()
        self._readers: dict[str, list[Reader]] = defaultdict(list)
        self._deferred: dict[str, list[Reader]] = defaultdict(list)

    def follow(self, topic: str, reader: Reader) -> None:
        """Give a reader each record of a topic as it is written, as a view has it."""
        self._readers[topic].append(reader)

    def serve(self, topic: str, reader: Reader) -> None:
        """Give a reader each record of a topic, with what `Faults` do to it, as a role has it."""
        self._deferred[topic].append(reader)

    def send(self, record: Outgoing) -> "Future[Delivered]":
        """Write a record; any thread may."""
        future: Future[Delivered] = Future()
        if threading.get_ident() == self._thread:
            future.set_result(self.write(record))
        else:
            self._loop.call_soon_threadsafe(lambda: future.set_result(self.write(record)))
        return future

    def write(self, record: Outgoing) -> Delivered:
        """Write a record, and hand it over or have it handed over later."""
        place = record.topic, record.partition or 0
        offset = self._ends[place]
        self._ends[place] += 1
        incoming = Incoming(
            topic=record.topic, partition=place[1], offset=offset, timestamp_ms=now_ms(), key=record.key,
            value=record.value, headers=record.headers,
        )  # fmt: skip
        for reader in self._readers[record.topic]:
            try:
                reader(incoming)
            except Exception:  # a record that one reader cannot take must not stop its writer
                log.exception("a record of %s cannot be taken in", record.topic)
        for reader in self._deferred[record.topic]:
            for _ in range(1 + (self._dice.random() < self._faults.repeated)):
                delay_ms = self._dice.uniform(0.0, self._faults.max_delay_ms)
                self._loop.call_later(delay_ms / 1000, reader, incoming)
        return Delivered(partition=place[1], offset=offset)

    def end(self, topic: str, partition: int) -> int:
        """Return the offset of the next record."""
        return self._ends[topic, partition]

    def loses_heartbeat(self) -> bool:
        """Whether the next heartbeat is lost."""
        return self._dice.random() < self._faults.lost_heartbeats

    def close(self) -> None:
        """Hold nothing that needs to be closed."""

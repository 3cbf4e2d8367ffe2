"""Topics in memory, as `pochade.cluster.Cluster` has them: what is written is read at once, in the writer's thread."""

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from pochade import PochadeError
from pochade.cluster import OnItem, Record


@dataclass
class MemoryCluster:
    """Brokers of one process; `fault` is what a write fails with, `denied` the topics that may not be read."""

    fault: str = ""
    denied: tuple[str, ...] = ()
    records: list[Record] = field(default_factory=list)
    on_write: Callable[[Record], None] = lambda _: None  # called with each record that a client wrote
    followers: list[tuple[Sequence[str], OnItem]] = field(default_factory=list)
    opened: list[tuple[Sequence[str], float]] = field(default_factory=list)  # topics, since when
    is_closed: bool = False
    _offsets: "itertools.count[int]" = field(default_factory=itertools.count)

    def write(self, topic: str, key: str, value: bytes) -> "Future[str]":
        written: Future[str] = Future()
        if not self.fault:
            self.on_write(self.arrive(topic, key, value))
        written.set_result(self.fault)
        return written

    def arrive(self, topic: str, key: str, value: bytes) -> Record:
        """Have a record written by somebody else."""
        record = Record(topic, next(self._offsets), key, value)
        self.records.append(record)
        for topics, on_item in list(self.followers):
            if topic in topics:
                on_item(record)
        return record

    def follow(self, topics: Sequence[str], since_s: float, on_item: OnItem) -> Callable[[], None]:
        self.opened.append((topics, since_s))
        if set(topics) & set(self.denied):
            on_item(PochadeError(f"this user may not read {', '.join(topics)}"))
            return lambda: None
        for record in self.records:
            if record.topic in topics:
                on_item(record)
        on_item(None)
        follower = topics, on_item
        self.followers.append(follower)
        return lambda: self.followers.remove(follower)

    def close(self) -> None:
        self.is_closed = True

    def values(self, topic: str) -> list[bytes]:
        """What was written to a topic."""
        return [record.value for record in self.records if record.topic == topic]

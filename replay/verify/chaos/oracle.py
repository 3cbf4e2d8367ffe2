"""Counts the ends of requests without the product: acknowledgements by the producer, results by a plain consumer.

A run writes a line to a file for each request that the broker acknowledged. When the run is over, a consumer that reads
committed records counts the keys on `results`, of which each line must have one. Nothing here imports the product, so
that an error of its client, its codec or its audit cannot hide itself.
"""

import json
import pathlib
import threading
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

POLL_S = 1.0
READ_S = 120.0  # for all of the topic


class Acknowledged:
    """Writes a line for each acknowledged request. Any thread may call `acknowledged`."""

    def __init__(self, path: pathlib.Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._file = path.open("a", buffering=1)

    def acknowledged(self, request_id: str, topic: str, partition: int, offset: int) -> None:
        """Write a line: the broker has this request."""
        line = json.dumps({"request_id": request_id, "topic": topic, "partition": partition, "offset": offset})
        with self._lock:
            self._file.write(line + "\n")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The counts of a run, from the file and the topic."""

    acknowledged: int
    lost: tuple[str, ...]  # of these: without a result
    doubled: tuple[str, ...]  # of these: with more than one
    last_end_ms: int  # broker's time of the last first result of these; 0 without any

    def report(self) -> dict[str, Any]:
        """Return the counts as the report of a run shows them."""
        return {"told": self.acknowledged, "lost": list(self.lost), "doubled": list(self.doubled)}

    def broken(self) -> str | None:
        """Return a sentence if a request has no result or several; None otherwise."""
        if not self.lost and not self.doubled:
            return None
        named = ", ".join((*self.lost, *self.doubled)[:5])
        return (
            f"a plain consumer found {len(self.lost)} of {self.acknowledged} acknowledged requests without a result "
            f"and {len(self.doubled)} with several ({named})"
        )


def count(path: pathlib.Path, results: Mapping[str, Sequence[int]], but: frozenset[str] = frozenset()) -> Counted:
    """Hold the lines of the file against the results; `but`: ids that are known to be gone.

    `results`: request id -> the broker's time of each of its results in epoch ms, as `read` returns it.
    """
    sent = {json.loads(line)["request_id"] for line in path.read_text().splitlines()} - but
    ends = Counter({name: len(results.get(name, ())) for name in sent})
    return Counted(
        acknowledged=len(sent),
        lost=tuple(sorted(name for name, times in ends.items() if times == 0)),
        doubled=tuple(sorted(name for name, times in ends.items() if times > 1)),
        last_end_ms=max((min(results[name]) for name in sent if results.get(name)), default=0),
    )


def read(bootstrap: str, topic: str) -> dict[str, list[int]]:
    """Return the key of each committed record of a topic, with the broker's times of its records in epoch ms."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": f"oracle-{uuid.uuid4().hex}", "enable.auto.commit": False,
            "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest",
        }
    )  # fmt: skip
    found: dict[str, list[int]] = {}
    try:
        partitions = consumer.list_topics(topic, timeout=READ_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, each, 0) for each in partitions])
        left, waits = set(partitions), 0.0
        while left and waits < READ_S:
            message = consumer.poll(POLL_S)
            if message is None:
                waits += POLL_S
            elif (error := message.error()) is None:
                found.setdefault((message.key() or b"").decode(errors="replace"), []).append(message.timestamp()[1])
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    finally:
        consumer.close()
    assert not left, f"partitions {sorted(left)} of {topic} could not be read to their ends within {READ_S:g} s"
    return found

"""What each worker still has to do, as one sender sees it: heartbeats plus the sender's own sends since."""

import math
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from planner.allocation import SERVING
from planner.observation import GONE
from schemas.messages import Heartbeat

FORGET_MS = 600_000  # a worker unheard of for longer leaves the view
UNACKNOWLEDGED_MS = 300_000  # librdkafka gives a send up by then (message.timeout.ms)
MOST_SENDS = 2048  # remembered per partition; beyond it, a partition without an owner only looks emptier

Key = tuple[str, int]  # (variant, partition)


class Load(NamedTuple):
    """A worker as the sender sees it: where to write to reach it, and what it still has to do."""

    worker_id: str
    partition: int  # of the variant's job topic
    remaining_ms: float


def shortest_ms(loads: Iterable[Load]) -> float:
    """The wait until the least loaded worker is free; infinite where there is none."""
    return min((load.remaining_ms for load in loads), default=math.inf)


@dataclass(slots=True)
class Sent:
    """A job the sender wrote; its handle until the broker has acknowledged it."""

    run_ms: float
    at_ms: int
    offset: int | None  # None: not acknowledged yet; -1: failed


@dataclass(slots=True)
class _Worker:
    variant: str
    state: str
    seen_ms: int
    partitions: list[int]
    backlog_ms: float  # of all its partitions, at `at_ms`
    at_ms: int
    turn: int  # which of its partitions is next: spread, so that a new worker takes over a fair part


class LoadView:
    """The loads of all workers. Not thread-safe: one owner; times are arguments, on one clock.

    A heartbeat tells the remaining work up to each partition's end offset; own sends at or above that offset, or not
    acknowledged yet, come on top. Between heartbeats a worker works its backlog off at one ms a ms, so that a view is
    not partial to whoever spoke last. A partition that two workers claim belongs to the newest heartbeat.
    """

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}
        self._owners: dict[Key, str] = {}
        self._sends: defaultdict[Key, deque[Sent]] = defaultdict(lambda: deque(maxlen=MOST_SENDS))

    def on_heartbeat(self, heartbeat: Heartbeat, seen_ms: int) -> None:
        """Take over what a worker says of itself. O(its partitions + own sends since the last one)."""
        before = self._workers.get(heartbeat.worker_id)
        self._release(heartbeat.worker_id)
        self._forget(seen_ms)
        if heartbeat.state in GONE:
            self._workers.pop(heartbeat.worker_id, None)
            return
        backlog_ms = 0.0
        for owned in heartbeat.partitions:
            key = (heartbeat.variant, owned.partition)
            self._take(key, heartbeat.worker_id)
            backlog_ms += owned.remaining_ms + self._pending_ms(key, owned.end_offset, seen_ms)
        self._workers[heartbeat.worker_id] = _Worker(
            variant=heartbeat.variant,
            state=heartbeat.state,
            seen_ms=seen_ms,
            partitions=[owned.partition for owned in heartbeat.partitions],
            backlog_ms=backlog_ms,
            at_ms=seen_ms,
            turn=before.turn if before else 0,
        )

    def on_sent(self, variant: str, partition: int, offset: int | None, run_ms: float, now_ms: int) -> Sent:
        """Count an own send; `offset` None until `on_acknowledged` tells it. O(1)."""
        sent = Sent(run_ms, now_ms, offset)
        self._sends[variant, partition].append(sent)
        worker = self._workers.get(self._owners.get((variant, partition), ""))
        if worker:
            worker.backlog_ms = _remaining_ms(worker, now_ms) + run_ms
            worker.at_ms = now_ms
            worker.turn += 1
        return sent

    def on_acknowledged(self, sent: Sent, offset: int) -> None:
        """The broker has written the job at this offset."""
        sent.offset = offset

    def on_failed(self, sent: Sent) -> None:
        """The job was not written: it counts no more from the next heartbeat on."""
        sent.offset = -1

    def loads(self, variant: str, now_ms: int, silent_ms: int) -> list[Load]:
        """The workers that take new jobs of a variant: serving, owning a partition, heard of in time. O(workers)."""
        return [
            Load(worker_id, worker.partitions[worker.turn % len(worker.partitions)], _remaining_ms(worker, now_ms))
            for worker_id, worker in self._workers.items()
            if worker.variant == variant
            and worker.partitions
            and worker.state in SERVING
            and now_ms - worker.seen_ms <= silent_ms
        ]

    def _take(self, key: Key, worker_id: str) -> None:
        other = self._workers.get(self._owners.get(key, ""))
        if other and key[1] in other.partitions:
            other.partitions.remove(key[1])
        self._owners[key] = worker_id

    def _release(self, worker_id: str) -> None:
        worker = self._workers.get(worker_id)
        if worker:
            for partition in worker.partitions:
                self._owners.pop((worker.variant, partition), None)
            worker.partitions = []

    def _forget(self, now_ms: int) -> None:
        for worker_id in [w for w, worker in self._workers.items() if now_ms - worker.seen_ms > FORGET_MS]:
            self._release(worker_id)
            del self._workers[worker_id]

    def _pending_ms(self, key: Key, end_offset: int, now_ms: int) -> float:
        sends = self._sends[key]
        kept = [sent for sent in sends if _is_pending(sent, end_offset, now_ms)]
        sends.clear()
        sends.extend(kept)
        return sum(sent.run_ms for sent in kept)


def _is_pending(sent: Sent, end_offset: int, now_ms: int) -> bool:
    if sent.offset is None:
        return now_ms - sent.at_ms <= UNACKNOWLEDGED_MS
    return sent.offset >= end_offset


def _remaining_ms(worker: _Worker, now_ms: int) -> float:
    return max(0.0, worker.backlog_ms - max(0, now_ms - worker.at_ms))

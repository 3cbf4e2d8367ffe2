"""The ledger: `outcomes` -> `results`, exactly one per request, whatever was retried, killed or replayed.

One transactional id a partition. On gaining a partition the ledger fences the former owner, then reads that partition
of `results` to its end, then serves (design, section 7). Results commit in a transaction, input offsets after it.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agents.lane import ROLE, Lane
from agents.membership import Membership
from agents.open_requests import OpenRequests
from schemas import topics
from schemas.messages import Status
from schemas.record import Incoming
from schemas.topics import full_name
from streams import metrics
from streams.groups import member_config
from streams.held_back import HeldBack
from streams.reading import Follower, incoming, now_ms, take
from streams.schema_wait import SchemaWait
from streams.settings import Settings
from streams.transactions import is_fenced

T = TypeVar("T")
log = logging.getLogger(__name__)

SESSION_ENDS = (KafkaException, BufferError)  # BufferError: more waits to be written than the client holds
AT_ONCE = 8  # partitions that are opened together: one after the other took 4 s for four (measured)
BATCH = 1000  # outcomes a transaction: one costs 5 ms however many it holds (measured)


class Ledger:
    """Owns lanes as the group assigns partitions. `run` blocks until `stopping` is set."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._group = f"{settings.kafka.prefix}.{ROLE}"
        self.membership = Membership()
        self._schemas = SchemaWait(ROLE)
        self._open = OpenRequests()

    def not_ready(self) -> str:
        """Why it does not serve everything yet; any thread may ask."""
        return self.membership.not_ready() or self._schemas.why

    def run(self, stopping: threading.Event) -> None:
        """Serve; what a transaction cannot survive (fencing, a lost broker) begins again from what is committed."""
        self._open = OpenRequests()
        following = Follower(self._settings, [topics.CLASSIFIED], self._open.on_record).start()
        try:
            while not stopping.is_set():
                self._try_session(stopping)
        finally:
            following.close()

    def _try_session(self, stopping: threading.Event) -> None:
        try:
            self._session(stopping)
        except SESSION_ENDS:
            log.exception("the ledger's session ended; beginning again from the last commit")
            metrics.RESTARTS.labels(ROLE).inc()
            stopping.wait(0.5)

    def _session(self, stopping: threading.Event) -> None:
        self.membership.leaves()
        config = member_config(self._settings, self._group)
        leaving = threading.Event()
        lanes: dict[int, Lane] = {}

        def gain(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if leaving.is_set():  # one that is being closed is still given partitions: a lane would fence their owner
                return
            numbers = [gained.partition for gained in partitions]
            self.membership.reads(f"the end of results, partitions {', '.join(map(str, numbers))}")
            lanes.update(_opened(self._settings, numbers))
            self.membership.has(len(lanes))

        def lose(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            for lost in partitions:
                lanes.pop(lost.partition, None)
            held_back.lose(partitions)
            self.membership.has(len(lanes))

        consumer = Consumer(
            {
                **config,
                "on_commit": _on_commit,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        held_back = HeldBack(consumer, self._settings.kafka.prefix, self._schemas)
        try:
            consumer.subscribe(
                [full_name(self._settings.kafka.prefix, topics.OUTCOMES)], on_assign=gain, on_revoke=lose, on_lost=lose
            )
            self.membership.has(0)
            while not stopping.is_set():
                self._serve(held_back.readable(take(consumer, BATCH, 0.1)), lanes, consumer)
                self._expire(lanes)
        finally:
            leaving.set()
            consumer.close()

    def _expire(self, lanes: dict[int, Lane]) -> None:
        now, grace_ms = now_ms(), round(self._settings.ledger.grace_s * 1000)
        for partition in lanes:
            if overdue := self._open.overdue(partition, now, grace_ms):
                metrics.OUTCOMES.labels(ROLE, Status.EXPIRED).inc(self._expired(lanes, partition, overdue))
        self._open.forget(now)

    def _serve(self, messages: list[Message], lanes: dict[int, Lane], consumer: Consumer) -> None:
        records = [incoming(message, self._settings.kafka.prefix) for message in messages]
        records.sort(key=lambda r: (r.partition, r.offset))
        for partition, run in groupby(records, key=lambda r: r.partition):
            if partition in lanes:  # else taken away while these were on their way: the new owner reads them
                taken = list(run)
                self._on(lanes, partition, _serving(taken, consumer))
                metrics.RECORDS.labels(ROLE).inc(len(taken))

    def _expired(self, lanes: dict[int, Lane], partition: int, overdue: list[Incoming]) -> int:
        try:
            return self._on(lanes, partition, lambda lane: lane.expire(overdue))
        except SESSION_ENDS:  # the next session tries again
            for record in overdue:
                self._open.on_record(record)
            raise

    def _on(self, lanes: dict[int, Lane], partition: int, act: Callable[[Lane], T]) -> T:
        """Act on a lane; once more, on a new one, where the broker went away meanwhile.

        A session that begins again would wait until the group has missed its former member.
        """
        try:
            return act(lanes[partition])
        except KafkaException as error:
            if is_fenced(error.args[0]):
                raise
            log.warning("a transaction on partition %d broke, a new producer takes over: %s", partition, error)
            metrics.RESTARTS.labels(ROLE).inc()
        lanes[partition] = Lane(self._settings, partition)
        return act(lanes[partition])


def _opened(settings: Settings, partitions: list[int]) -> dict[int, Lane]:
    with ThreadPoolExecutor(AT_ONCE) as opening:
        return dict(zip(partitions, opening.map(partial(Lane, settings), partitions), strict=True))


def _serving(records: list[Incoming], group: Consumer) -> Callable[[Lane], None]:
    return lambda lane: lane.serve(records, group)


def _on_commit(error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
    """What is not committed is read again, and known to have ended."""
    if error is not None:
        metrics.FALLBACKS.labels(ROLE, "commit").inc()
        log.warning("commit refused: %s", error)

"""The ledger: `outcomes` -> `results`, exactly one per request, whatever was retried, killed or replayed.

One transactional id a partition. On gaining a partition the ledger fences the former owner, then learns what has ended
in it (`remembered.py`), then serves (design, section 7). Results commit in a transaction, input offsets after it.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agents.ledger import topics as ledger_topics
from agents.ledger.added_partition import AddedPartition
from agents.ledger.broker_clock import BrokerClock
from agents.ledger.expiry import Expiry
from agents.ledger.membership import Membership
from agents.ledger.memory import give_back_memory
from agents.ledger.partition import Lane
from agents.ledger.remembered import ROLE
from schemas import topics
from schemas.errors import PochadeError
from schemas.messages import Status
from schemas.record import Incoming
from schemas.topics import full_name
from streams import metrics
from streams.codec.held_back import HeldBack
from streams.codec.schema_wait import SchemaWait
from streams.kafka.consumer import incoming, take
from streams.kafka.groups import member_config
from streams.kafka.producer import KafkaRecordProducer, RecordProducer
from streams.kafka.transactions import is_fenced
from streams.settings import Settings

T = TypeVar("T")
log = logging.getLogger(__name__)

SESSION_ENDS = (KafkaException, BufferError)  # BufferError: more waits to be written than the client holds
AGAIN_S = 0.5  # from the end of a session to the next
AT_ONCE = 8  # partitions that are opened together: one after the other took 4 s for four (measured)
BATCH = 1000  # outcomes a transaction: one costs 5 ms however many it holds (measured)
POLL_LIMIT_MS = 1_800_000  # for learning what has ended: minutes where a deployment of millions had no `ended` before
WAIT_S = 0.1  # for outcomes, while nothing else is to be done


class Ledger:
    """Owns lanes as the group assigns partitions. `run` blocks until `stopping` is set."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._group = f"{settings.kafka.prefix}.{ROLE}"
        self.membership = Membership()
        self._schemas = SchemaWait(ROLE)
        self._clock = BrokerClock()
        self._producer: RecordProducer | None = None  # of chunks, and of outcomes that are moved
        self._added: dict[int, AddedPartition] = {}  # owned, beyond those that know what has ended

    def not_ready(self) -> str:
        """Why it does not serve everything yet; any thread may ask."""
        return self.membership.not_ready() or self._schemas.why

    def run(self, stopping: threading.Event) -> None:
        """Serve; what a transaction cannot survive (fencing, a lost broker) begins again from what is committed."""
        self._producer = producer = KafkaRecordProducer(self._settings)
        try:
            while not stopping.is_set():
                self._try_session(stopping)
        finally:
            producer.close()

    def _try_session(self, stopping: threading.Event) -> None:
        try:
            self._session(stopping)
        except (*SESSION_ENDS, PochadeError) as error:  # PochadeError: a cluster that refuses, a clock that is off
            log.exception("the ledger's session ended; beginning again from the last commit")
            metrics.RESTARTS.labels(ROLE).inc()
            self.membership.fails(_told(error))
            stopping.wait(AGAIN_S)

    def _session(self, stopping: threading.Event) -> None:
        self.membership.leaves()
        config = member_config(self._settings, self._group)
        leaving = threading.Event()
        lanes: dict[int, Lane] = {}
        self._added = {}
        expiry = Expiry(self._settings)

        def gain(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if leaving.is_set():  # one that is being closed is still given partitions: a lane would fence their owner
                return
            numbers = [gained.partition for gained in partitions]
            self.membership.reads(f"the end of results, partitions {', '.join(map(str, numbers))}")
            opened = self._opened(numbers)
            lanes.update(opened)
            expiry.follow(opened)
            self.membership.has(len(lanes))

        def lose(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            numbers = [lost.partition for lost in partitions]
            for number in numbers:
                lanes.pop(number, None)
                self._added.pop(number, None)
            expiry.leave(numbers)
            held_back.lose(partitions)
            self.membership.has(len(lanes))

        consumer = Consumer(
            {
                **config,
                "on_commit": _on_commit,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
                "max.poll.interval.ms": POLL_LIMIT_MS,
            }
        )
        held_back = HeldBack(consumer, self._settings.kafka.prefix, self._schemas)
        try:
            consumer.subscribe(
                [full_name(self._settings.kafka.prefix, topics.OUTCOMES)], on_assign=gain, on_revoke=lose, on_lost=lose
            )
            self.membership.has(0)
            wait_s = WAIT_S
            while not stopping.is_set():
                records = held_back.readable(take(consumer, BATCH, wait_s))
                self._serve(records, lanes, consumer, expiry)
                wait_s = 0.0 if expiry.read_on(lanes) else WAIT_S
                self._expire(lanes, expiry)
        finally:
            leaving.set()
            expiry.close()
            consumer.close()

    def _opened(self, partitions: list[int]) -> dict[int, Lane]:
        known = ledger_topics.ask(self._settings)
        added = [number for number in partitions if known.partitions and number >= known.partitions]
        partitions = [number for number in partitions if number not in added]
        for number in added:
            assert self._producer is not None, "a session runs while there is a producer"
            self._added[number] = AddedPartition(self._settings, number, known.partitions, self._producer)
        send = self._producer.send if self._producer else None

        def open_one(partition: int) -> Lane:
            return Lane(self._settings, partition, known, self._clock, send)

        with ThreadPoolExecutor(AT_ONCE) as opening:
            opened = dict(zip(partitions, opening.map(open_one, partitions), strict=True))
        give_back_memory()
        return opened

    def _expire(self, lanes: dict[int, Lane], expiry: Expiry) -> None:
        self._clock.check()
        for partition in lanes:
            end = partial(self._ended, lanes, partition)
            ended = expiry.end_overdue(partition, self._clock.now_ms(), end)
            metrics.OUTCOMES.labels(ROLE, Status.EXPIRED).inc(ended)

    def _ended(self, lanes: dict[int, Lane], partition: int, overdue: list[Incoming]) -> list[str]:
        return self._on(lanes, partition, lambda lane: lane.expire(overdue))

    def _serve(self, messages: list[Message], lanes: dict[int, Lane], consumer: Consumer, expiry: Expiry) -> None:
        records = [incoming(message, self._settings.kafka.prefix) for message in messages]
        records.sort(key=lambda r: (r.partition, r.offset))
        for partition, run in groupby(records, key=lambda r: r.partition):
            taken = list(run)
            if partition in lanes:
                expiry.ended(partition, self._on(lanes, partition, _serving(taken, consumer)))
            elif partition in self._added:
                self._added[partition].serve(taken, consumer)
            else:  # taken away while these were on their way: the new owner reads them
                continue
            metrics.RECORDS.labels(ROLE).inc(len(taken))

    def _on(self, lanes: dict[int, Lane], partition: int, act: Callable[[Lane], T]) -> T:
        """Act on a lane; once more, with a new producer, where the broker went away meanwhile.

        A session that begins again would wait until the group has missed its former member.
        """
        try:
            return act(lanes[partition])
        except KafkaException as error:
            if is_fenced(error.args[0]):
                raise
            log.warning("a transaction on partition %d broke, a new producer takes over: %s", partition, error)
            metrics.RESTARTS.labels(ROLE).inc()
        lanes[partition].reopen()
        return act(lanes[partition])


def _serving(records: list[Incoming], group: Consumer) -> Callable[[Lane], list[str]]:
    return lambda lane: lane.serve(records, group)


def _told(error: Exception) -> str:
    cause = error.args[0] if error.args else None
    return cause.str() if isinstance(cause, KafkaError) else str(error)


def _on_commit(error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
    """What is not committed is read again, and known to have ended."""
    if error is not None:
        metrics.FALLBACKS.labels(ROLE, "commit").inc()
        log.warning("commit refused: %s", error)

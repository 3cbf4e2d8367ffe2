"""The ledger: `outcomes` -> `results`, exactly one per request, also after retries, crashes and replays.

Each partition has one transactional id. On gaining a partition the ledger fences the former owner, reads its ended
requests (`remembered.py`), then serves. Results commit in a transaction, input offsets after it.
"""

import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from agents.ledger import topics as ledger_topics
from agents.ledger.broker_clock import BrokerClock
from agents.ledger.open_requests import Expiry
from agents.ledger.partition import OVERLAP, AddedPartition, LedgerPartition
from planner.serving.ending.ledger import ROLE
from schemas import topics
from schemas.errors import PochadeError
from schemas.messages import Status
from schemas.record import Incoming
from schemas.topics import full_name
from streams import metrics
from streams.clock import now_ms
from streams.codec.schema_wait import SchemaWait, WaitingMessages
from streams.kafka.clients import ClusterSettings
from streams.kafka.consumers.consumer_factory import open_member
from streams.kafka.consumers.polling import incoming, take
from streams.kafka.groups.members import IdleMember
from streams.kafka.producers.writing import RecordProducer
from streams.kafka.transactions.transactions import is_fenced
from streams.tracing import spans

T = TypeVar("T")
Join = Callable[[str], Mapping[str, Any]]  # the configuration of a member, by the group's name
log = logging.getLogger(__name__)

SESSION_ENDS = (KafkaException, BufferError)  # BufferError: more waits to be written than the client holds
RETRY_S = 0.5  # from the end of a session to the next
AT_ONCE = 8  # partitions that are opened together: one after the other took 4 s for four (measured)
ANSWER_S = 10.0
QUIET_S = 5.0  # without an outcome since a partition was gained, after which all that lay there is read
BATCH = OVERLAP  # outcomes a transaction: one costs 5 ms however many it holds (measured)
POLL_LIMIT_MS = 1_800_000  # for reading ended requests: minutes for millions of results without chunks on `ended`
WAIT_S = 0.1  # for outcomes, while nothing else is to be done
SPARE_AFTER_S = 10  # after this time without partitions a member is a spare one, and ready


class LedgerRules(NamedTuple):
    """The ledger's part of the settings."""

    grace_ms: int  # after a deadline, for an outcome on its way
    most_ahead_ms: int  # max time from a request's arrival to its deadline; later deadlines are ignored
    result_format: str  # avro | json


class Ledger:
    """Serves partitions as the group assigns them, in one `Session` after another. `run` blocks until `stopping`."""

    def __init__(self, cluster: ClusterSettings, rules: LedgerRules, join: Join, producer: RecordProducer) -> None:
        """`join`: how a member of a group begins, `member_config` of `streams.kafka.groups`. `producer`: of chunks,
        and of outcomes that are moved; results come in transactions, each partition's by a producer of its own."""
        self._cluster = cluster
        self._rules = rules
        self._join = join
        self.membership = Membership()
        self._schemas = SchemaWait(ROLE)
        self._clock = BrokerClock()
        self._producer = producer

    def not_ready(self) -> str:
        """Why it does not serve everything yet; any thread may ask."""
        return self.membership.not_ready() or self._schemas.why

    def run(self, stopping: threading.Event) -> None:
        """Serve; after fencing or a lost broker, begin again from the committed offsets."""
        while not stopping.is_set():
            self._try_session(stopping)

    def _try_session(self, stopping: threading.Event) -> None:
        try:
            self._session(stopping)
        except (*SESSION_ENDS, PochadeError) as error:  # PochadeError: a cluster that refuses, a clock that is off
            log.exception("the ledger's session ended; beginning again from the last commit")
            metrics.RESTARTS.labels(ROLE).inc()
            self.membership.fails(_describe(error))
            stopping.wait(RETRY_S)

    def _session(self, stopping: threading.Event) -> None:
        self.membership.leaves()
        member = self._join(f"{self._cluster.kafka.prefix}.{ROLE}")
        session = Session(
            self._cluster, self._rules, member, self.membership, self._schemas, self._clock, self._producer
        )
        try:
            session.serve(stopping)
        finally:
            session.close()


def _describe(error: Exception) -> str:
    cause = error.args[0] if error.args else None
    return cause.str() if isinstance(cause, KafkaError) else str(error)


class Membership:
    """The state of a member of a consumer group: what it waits for before it can serve.

    Written by the thread that polls, read by any.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._waits_for = "the broker"
        self._failure = ""
        self._idle_since_s: float | None = None  # since when it is a member without partitions

    def leaves(self) -> None:
        """Note that a session begins; the former session's error is shown until this one has partitions."""
        self._waits_for, self._idle_since_s = "the broker", None

    def fails(self, why: str) -> None:
        """Note the error that ended a session."""
        self.leaves()
        self._failure = why

    def has(self, partitions: int) -> None:
        """Note that the group has accepted the member, and that this number of partitions is served."""
        self._waits_for = "" if partitions else "partitions"
        self._failure = "" if partitions else self._failure
        self._idle_since_s = None if partitions else self._clock_s()

    def reads(self, what: str) -> None:
        """Note that a partition was gained, and what must be read before it is served."""
        self._waits_for, self._idle_since_s = what, None

    def not_ready(self) -> str:
        """Say what the member waits for; "" if it serves, or stands by because others have all partitions."""
        since_s = self._idle_since_s
        stands_by = since_s is not None and self._clock_s() - since_s > SPARE_AFTER_S
        if not self._waits_for or stands_by:
            return ""
        return f"waits for {self._waits_for}" + (f": {self._failure}" if self._failure else "")


class Session:
    """One membership of the group, from joining it to leaving it, with the partitions that are owned meanwhile.

    The group's callbacks come within its polls. Not thread-safe.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        rules: LedgerRules,
        member: Mapping[str, Any],
        membership: Membership,
        schemas: SchemaWait,
        clock: BrokerClock,
        producer: RecordProducer,
    ) -> None:
        self._cluster = cluster
        self._result_format = rules.result_format
        self._membership = membership
        self._clock = clock
        self._producer = producer
        self._lanes: dict[int, LedgerPartition] = {}
        self._committed: dict[int, int] = {}  # owned partition -> the group's commit when it was gained
        self._unread: dict[int, int] = {}  # owned partition -> end of its outcomes when gained, until it is read
        self._gained_s = 0.0  # monotonic
        self._added: dict[int, AddedPartition] = {}  # owned, beyond those that know what has ended
        self._is_leaving = False
        self._queue_s, self._hop_s = metrics.QUEUE_SECONDS.labels(ROLE), metrics.HOP_SECONDS.labels(ROLE)
        self._expiry = Expiry(cluster, rules.grace_ms, rules.most_ahead_ms)
        own = {"on_commit": _on_commit, "isolation.level": "read_committed", "max.poll.interval.ms": POLL_LIMIT_MS}
        self._consumer = open_member(member, own)
        self._idle = IdleMember(cluster, f"{cluster.kafka.prefix}.{ROLE}")
        self._held_back = WaitingMessages(self._consumer, cluster.kafka.prefix, schemas)

    def serve(self, stopping: threading.Event) -> None:
        """Join the group; write results and expire what is overdue until `stopping` is set."""
        outcomes = full_name(self._cluster.kafka.prefix, topics.OUTCOMES)
        self._consumer.subscribe([outcomes], on_assign=self._gain, on_revoke=self._lose, on_lost=self._lose)
        self._membership.has(0)
        wait_s = WAIT_S
        while not stopping.is_set():
            polled = take(self._consumer, BATCH, wait_s)
            self._serve(self._held_back.readable(polled))
            is_served = bool(polled) or self._held_back.holds
            self._idle.check(self._consumer, len(self._lanes) + len(self._added), is_served=is_served)
            wait_s = 0.0 if self._expiry.read_on(self._lanes) else WAIT_S
            if not polled and time.monotonic() - self._gained_s > QUIET_S:
                self._unread.clear()  # what lies at an end may be no record: the marker of a transaction
            if len(polled) < BATCH:  # else more outcomes wait, which may be those of overdue requests
                self._expire()

    def close(self) -> None:
        """Leave the group, and release the clients."""
        self._is_leaving = True
        self._expiry.close()
        self._consumer.close()

    # ------------------------------------------------------------------ partitions

    def _gain(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_leaving:  # a closing member is still given partitions: serving one would fence its new owner
            return
        numbers = [gained.partition for gained in partitions]
        self._membership.reads(f"the end of results, partitions {', '.join(map(str, numbers))}")
        opened = self._opened(numbers)
        self._lanes.update(opened)
        begins = [self._beginning(each) for each in consumer.committed(partitions, ANSWER_S)]
        self._unread |= _unread(consumer, begins)
        self._gained_s = time.monotonic()
        consumer.incremental_assign(begins)
        self._expiry.follow(opened)
        self._membership.has(len(self._lanes))

    def _beginning(self, committed: TopicPartition) -> TopicPartition:
        """Return where to begin to read: far enough before the commit that a lost transaction is read again."""
        if committed.error is not None:
            raise KafkaException(committed.error)
        if committed.offset > 0 and committed.partition in self._lanes:
            self._committed[committed.partition] = committed.offset
            committed.offset = max(0, committed.offset - OVERLAP)
        return committed

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [lost.partition for lost in partitions]
        for number in numbers:
            self._lanes.pop(number, None)
            self._unread.pop(number, None)
            self._committed.pop(number, None)
            self._added.pop(number, None)
        self._expiry.leave(numbers)
        self._held_back.lose(partitions)
        self._membership.has(len(self._lanes))

    def _opened(self, partitions: list[int]) -> dict[int, LedgerPartition]:
        """Open these partitions; partitions that were added to the topic later are kept apart."""
        known = ledger_topics.ask(self._cluster)
        added = [number for number in partitions if known.partitions and number >= known.partitions]
        for number in added:
            self._added[number] = AddedPartition(self._cluster, number, known.partitions, self._producer)
        numbers = [number for number in partitions if number not in added]

        def open_one(number: int) -> LedgerPartition:
            send, form = self._producer.send, self._result_format
            return LedgerPartition(self._cluster, number, known, self._clock, send, result_format=form)

        return open_partitions(numbers, open_one)

    # ------------------------------------------------------------------ records

    def _serve(self, messages: list[Message]) -> None:
        records = [incoming(message, self._cluster.kafka.prefix) for message in messages]
        records.sort(key=lambda r: (r.partition, r.offset))
        for partition, run in groupby(records, key=lambda r: r.partition):
            taken = list(run)
            begun_s, at_ms = time.monotonic(), now_ms()
            for record in taken:
                self._queue_s.observe(max(0, at_ms - record.timestamp_ms) / 1000)
            if partition in self._lanes:
                self._expiry.ended(partition, act_on(self._lanes[partition], self._serving(partition, taken)))
            elif partition in self._added:
                self._added[partition].serve(taken, self._consumer)
            else:  # taken away while these were on their way: the new owner reads them
                continue
            if taken[-1].offset + 1 >= self._unread.get(partition, 0):
                self._unread.pop(partition, None)
            metrics.RECORDS.labels(ROLE).inc(len(taken))
            self._hop_s.observe(time.monotonic() - begun_s, len(taken))

    def _serving(self, partition: int, records: list[Incoming]) -> Callable[[LedgerPartition], list[str]]:
        committed = self._committed.get(partition, 0)
        before = [record for record in records if record.offset < committed]
        new = records[len(before) :]

        def serve(lane: LedgerPartition) -> list[str]:
            hop = spans.begin(ROLE, new, f"{self._cluster.kafka.prefix}.{ROLE}")
            ended = lane.end_lost(before)
            if new:
                with spans.within(hop):
                    ended = ended + lane.serve(new, self._consumer)
            spans.end(hop)
            return ended

        return serve

    def _expire(self) -> None:
        """End overdue requests, except in partitions whose earlier outcomes are not all read yet."""
        self._clock.check()
        for partition in self._lanes.keys() - self._unread.keys():
            ended = self._expiry.end_overdue(partition, self._clock.now_ms(), partial(self._ended, partition))
            metrics.OUTCOMES.labels(ROLE, Status.EXPIRED).inc(ended)

    def _ended(self, partition: int, overdue: list[Incoming]) -> list[str]:
        return act_on(self._lanes[partition], lambda lane: lane.expire(overdue))


def _unread(consumer: Consumer, begins: Sequence[TopicPartition]) -> dict[int, int]:
    """Return partition -> its end offset, for partitions with unread records."""
    ends: dict[int, int] = {}
    for begin in begins:
        first, end = consumer.get_watermark_offsets(begin, ANSWER_S)
        if (begin.offset if begin.offset >= 0 else first) < end:
            ends[begin.partition] = end
    return ends


def act_on(lane: LedgerPartition, act: Callable[[LedgerPartition], T]) -> T:
    """Act on a partition; retry once with a new producer if the broker failed.

    A new session would wait until the group has timed out its former member.
    """
    try:
        return act(lane)
    except KafkaException as error:
        if is_fenced(error.args[0]):
            raise
        log.warning("a transaction on partition %d broke, a new producer takes over: %s", lane.partition, error)
        metrics.RESTARTS.labels(ROLE).inc()
    lane.reopen()
    return act(lane)


def open_partitions(partitions: list[int], open_one: Callable[[int], LedgerPartition]) -> dict[int, LedgerPartition]:
    """Open all partitions at once, as each mostly waits for a broker."""
    with ThreadPoolExecutor(AT_ONCE) as opening:
        opened = dict(zip(partitions, opening.map(open_one, partitions), strict=True))
    give_back_memory()
    return opened


def give_back_memory() -> None:
    """Return the C library's free memory to the system: 120 MB after 69 million ended ids (measured)."""
    with contextlib.suppress(OSError, AttributeError):  # another C library than glibc has no such call
        ctypes.CDLL(None).malloc_trim(0)


def _on_commit(error: KafkaError | None, _partitions: list[TopicPartition]) -> None:
    """Log a failed commit: its records are read again, and known to have ended."""
    if error is not None:
        metrics.FALLBACKS.labels(ROLE, "commit").inc()
        log.warning("commit refused: %s", error)

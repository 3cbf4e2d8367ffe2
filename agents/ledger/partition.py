"""One partition of the ledger: its transactional producer, and the results that it writes.

`LedgerLogic` (`planner/serving/ending/ledger.py`) decides which outcome ends a request.

`AddedPartition` is a partition that an operator added to `outcomes`: it moves outcomes to their requests' own
partitions.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from agents.ledger.broker_clock import BrokerClock
from agents.ledger.remembered import Remembered, Send
from agents.ledger.topics import WRITTEN, LedgerTopics
from agents.runtime.records import fitted_dead_letter, outcome_record, outgoing
from planner.serving.ending.ledger import MOVED, ROLE, Aside, Effect, End, LedgerLogic, Move, Repeated, result_of
from schemas import topics
from schemas.errors import PochadeError
from schemas.messages import TIERS, ClassifiedRequest, Outcome, Result, Status
from schemas.record import Headers, Incoming, Outgoing
from schemas.topics import full_name
from streams import metrics
from streams.clock import now_ms
from streams.codec.avro import encode_result, read_each
from streams.kafka.clients import ClusterSettings, topic_name
from streams.kafka.producers.partitioner import partition_of
from streams.kafka.producers.writing import RecordProducer, RecordTooLarge, send_all, size_of
from streams.kafka.transactions.barrier import Barrier, open_reader, write_barrier
from streams.kafka.transactions.transactions import BATCH_BYTES, open_producer, watchdog
from streams.observing import log_context
from streams.processes.watchdog import Bite

log = logging.getLogger(__name__)

TRANSACTION_S = 30  # max time for a broker to answer until the work in progress begins again
MIN_BYTES = 1000  # of a record; no topic takes less
DELIVERY_S = 130.0  # the client gives up after 120 s

OVERLAP = 1000  # outcomes before the group's commit that are read again: the size of the largest transaction
Decide = Callable[[Sequence[Incoming]], list[Effect]]


class MarkerLost(PochadeError):
    """A transaction that a broker reported as committed has no results, so the partition's state is wrong."""


class LedgerPartition:
    """One partition of the ledger: its own transactional producer, and the requests that have ended in it."""

    def __init__(
        self,
        cluster: ClusterSettings,
        partition: int,
        known: LedgerTopics | None = None,
        clock: BrokerClock | None = None,
        send: Send | None = None,
        bite: Bite | None = None,
        result_format: str = "avro",
    ) -> None:
        """`send`: writes chunks of ended ids; None for no chunks. `bite`: called if a transaction hangs; None to end
        the process, as only a new one can continue. `result_format`: avro | json.

        Raises:
            KafkaException: the broker did not answer in time.
            ClockOff: this machine's clock is not the broker's.
        """
        self._cluster = cluster
        self.partition = partition
        self._topics = known or LedgerTopics()
        self._limits = self._topics.limits
        self._batch_bytes = min(BATCH_BYTES, self._limits.batch_bytes(WRITTEN))
        self._clock = clock or BrokerClock()
        self._made: list[tuple[Outcome, Result]] = []  # results of the open transaction, counted at its commit
        self._last: tuple[int, Sequence[str]] | None = None  # the last transaction: its first result, and who ended
        self._format = result_format
        self._watchdog = watchdog("a transaction of the ledger", TRANSACTION_S, bite)
        self.remembered = Remembered(cluster, partition, self._topics, self._clock, send)
        self.ended = self.remembered.ids
        self._logic = LedgerLogic(self.ended, self._elsewhere)
        with ThreadPoolExecutor(1) as fencing:  # at the same time: either is mostly waiting
            barrier = fencing.submit(self._fence)
            reader = open_reader(cluster, f"{ROLE}.recovery")
            try:
                self.remembered.read_chunks(reader)
                self.remembered.begin(reader, barrier.result())
            finally:
                reader.close()

    def reopen(self) -> None:
        """Replace a broken producer; the partition's state is kept, and results are read on.

        Raises:
            MarkerLost: the broker has aborted a transaction that it had said to be committed.
            KafkaException, ClockOff: as the constructor.
        """
        barrier = self._fence()
        reader = open_reader(self._cluster, f"{ROLE}.recovery")
        try:
            if self._last is not None and not self.remembered.are_committed(reader, *self._last, barrier):
                raise MarkerLost(f"results of partition {self.partition} were reported as committed and are aborted")
            self.remembered.read_on(reader, barrier)
        finally:
            reader.close()

    def _fence(self) -> Barrier:
        name = f"{self._cluster.kafka.prefix}.{ROLE}.{self.partition}"
        self._producer: Producer = open_producer(self._cluster, name, TRANSACTION_S, self._batch_bytes)
        self._producer.init_transactions(TRANSACTION_S)  # from here on the former owner cannot commit
        results = full_name(self._cluster.kafka.prefix, topics.RESULTS)
        with self._watchdog:
            barrier = write_barrier(self._producer, results, self.partition, TRANSACTION_S / 3)
        if not barrier.is_brokers_time:
            log.warning("%s keeps its writers' times, not the broker's: see `pochade topics diff`", results)
        self._clock.observe(barrier.at_ms)
        return barrier

    def serve(self, records: Sequence[Incoming], group: Consumer) -> list[str]:
        """Write the results of outcomes in one transaction, then commit past them; return the ended ids.

        Outcomes that are read again after a crash in between are known to have ended.
        """
        ended = self._end(records, lambda some: self._logic.on_outcomes(read_each(some, Outcome)))
        source = full_name(self._cluster.kafka.prefix, topics.OUTCOMES)
        group.commit(offsets=[TopicPartition(source, self.partition, records[-1].offset + 1)], asynchronous=True)
        return ended

    def end_lost(self, records: Sequence[Incoming]) -> list[str]:
        """End outcomes before the group's commit that have no result; return their ids.

        If a partition has no leader for a moment (a single replica whose broker ends), Kafka 4.1 to 4.3 forgets a
        transaction's marker and reports it as committed (KAFKA-20734); the next producer's first abort, the barrier's,
        hides it for ever. Only the last transaction before a producer can be lost: the next one's marker covers it.
        """
        ended = self._end(records, lambda some: self._logic.on_reread(read_each(some, Outcome)))
        if ended:
            metrics.FALLBACKS.labels(ROLE, "lost-marker").inc(len(ended))
            log.warning("the broker lost a committed transaction; %d requests get their result again", len(ended))
        return ended

    def _end(self, records: Sequence[Incoming], decide: Decide) -> list[str]:
        """End requests in one transaction; a request whose record is too large for its topic ends in its own."""
        self._made = []
        effects = decide(records)
        written = [record for effect in effects for record in self._records_of(effect)]
        if not written:
            return []
        ids = [effect.outcome.request_id for effect in effects if isinstance(effect, End)]
        try:
            begun_s = time.monotonic()
            self._write(written, ids)
            metrics.TRANSACTION_SECONDS.observe(time.monotonic() - begun_s)
            for outcome, result in self._made:
                count_end(outcome, result)
            return ids
        except KafkaException as error:
            if error.args[0].code() != KafkaError.MSG_SIZE_TOO_LARGE:
                raise
        self.reopen()  # after an abort the broker refuses the same producer: its sequence numbers have a gap (seen)
        if len(records) == 1:
            self._learn(written)
            return self._end(records, decide)
        half = len(records) // 2
        return self._end(records[:half], decide) + self._end(records[half:], decide)

    def _learn(self, written: Sequence[Outgoing]) -> None:
        """Lower the size limit of the topic of the largest of these records, which was refused."""
        refused = max(written, key=size_of)
        self._limits.refused(refused, was_alone=True)
        metrics.FALLBACKS.labels(ROLE, "refused-size").inc()
        log.warning("%s takes no record of %d bytes: see its max.message.bytes", refused.topic, size_of(refused))
        if size_of(refused) <= MIN_BYTES:
            raise KafkaException(KafkaError(KafkaError.INVALID_MSG_SIZE, f"{refused.topic} takes next to nothing"))

    def expire(self, overdue: Sequence[Incoming]) -> list[str]:
        """End overdue requests; return their ids. Their later outcomes are dropped."""
        return self._end(overdue, lambda some: self._logic.on_overdue(read_each(some, ClassifiedRequest), now_ms()))

    def _write(self, written: Sequence[Outgoing], ids: Sequence[str]) -> None:
        """Write all or nothing, and remember the ends. After a KafkaException either is possible: `reopen` decides."""
        reported: list[tuple[KafkaError | None, Message]] = []
        last = max((at for at, record in enumerate(written) if record.topic == topics.RESULTS), default=-1)
        self._producer.begin_transaction()
        for at, record in enumerate(written):
            name = full_name(self._cluster.kafka.prefix, record.topic)
            more: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
            if at == last:  # one callback: one for each record would take more time than the rest
                more["on_delivery"] = lambda *report: reported.append(report)
            self._producer.produce(name, record.value, record.key, headers=list(record.headers.items()), **more)
        with self._watchdog:
            self._producer.commit_transaction(TRANSACTION_S)
        if last >= 0:
            self._remember(reported, ids, sum(record.topic == topics.RESULTS for record in written))

    def _remember(self, reported: list[tuple[KafkaError | None, Message]], ids: Sequence[str], results: int) -> None:
        if not reported:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "a committed record was not reported"))
        message = reported[0][1]
        at_ms = message.timestamp()[1]
        self._clock.observe(at_ms)
        end = (message.offset() or 0) + 1
        self.remembered.add(ids, at_ms, end)
        self._last = end - results, ids

    def _elsewhere(self, key: bytes) -> int | None:
        """Return the own partition of a key's request; None if it is this one."""
        count = self._topics.partitions
        home = partition_of(key, count) if count else self.partition
        return None if home == self.partition else home

    def _records_of(self, effect: Effect) -> list[Outgoing]:
        """Return the records to write for an effect."""
        match effect:
            case End():
                return self._ending(effect)
            case Aside(record, error):
                return self._dead_letter(record, error)
            case Move():
                return [self._moved(effect)]
            case Repeated():
                metrics.LEDGER_DUPLICATES.inc()
                return []

    def _ending(self, end: End) -> list[Outgoing]:
        """Return the record of an outcome's result, or the dead letter of an outcome without one."""
        record = end.record
        try:
            return [self._result(end.outcome, {} if end.is_bare else record.headers)]
        except Exception as error:  # numbers out of range, a batch of none, too large: the next must still be served
            with log_context.serving(record):
                log.exception("outcome %d@%d makes no result", record.partition, record.offset)
            instead = self._logic.on_unmade(end, error, now_ms())
            return [each for effect in instead for each in self._records_of(effect)]

    def _moved(self, move: Move) -> Outgoing:
        record, key = move.record, move.outcome.request_id.encode()
        metrics.FALLBACKS.labels(ROLE, "foreign-partition").inc()
        log.warning(
            "the outcome of %.80r lay in partition %d and is moved to its own, %d: which client writes without "
            "partitioner=murmur2_random?", key, self.partition, move.partition,
        )  # fmt: skip
        as_it_is = Outgoing(topic=topics.OUTCOMES, key=key, value=record.value, headers=record.headers)
        outcome = outcome_record(move.outcome, record.headers, now_ms()) if move.is_own else as_it_is
        headers = {**outcome.headers, MOVED: b"%d" % self.partition}
        return dataclasses.replace(outcome, headers=headers, partition=move.partition)

    def _result(self, outcome: Outcome, cause: Headers) -> Outgoing:
        result = result_of(outcome)
        record = outgoing(
            topics.RESULTS, result, request_id=result.request_id, cause=cause, role=ROLE, now_ms=now_ms(),
            facts={"status": result.status}, partition=self.partition,
        )  # fmt: skip
        if self._format != "avro":
            record = dataclasses.replace(record, value=encode_result(result, self._format))
        if (size := size_of(record)) > (most := self._limits.of(topics.RESULTS)):
            raise RecordTooLarge(f"`results` takes records of {most} bytes, headers included: got {size}")
        self._made.append((outcome, result))
        return record

    def _dead_letter(self, record: Incoming, error: Exception) -> list[Outgoing]:
        """Return the dead letter of an outcome; nothing if even its headers are too large for the dlq."""
        metrics.DEAD_LETTERS.labels(ROLE, type(error).__name__).inc()
        request_id, most = (record.key or b"").decode(errors="replace"), self._limits.of(topics.DLQ)
        letter = fitted_dead_letter(record, error=error, role=ROLE, request_id=request_id, most=most)
        if size_of(letter) <= most:
            return [letter]
        metrics.FALLBACKS.labels(ROLE, "no-dead-letter").inc()
        log.error("the dlq takes no dead letter of outcome %d@%d: %s", record.partition, record.offset, error)
        return []


def count_end(outcome: Outcome, result: Result) -> None:
    """Count a request whose result is committed: its status, its latency, and the time left to its deadline."""
    request = outcome.request
    tier = request.tier if request is not None and request.tier in TIERS else "unknown"
    if result.latency_ms is not None:
        metrics.REQUEST_SECONDS.labels(result.status, tier).observe(max(0, result.latency_ms) / 1000)
    if result.status is not Status.COMPLETED:
        return
    metrics.COMPLETED.labels(result.level or "").inc()
    for each in result.overridden:
        option = each.partition(":")[0]
        metrics.OVERRIDDEN.labels(option if option in metrics.OPTIONS else "other").inc()
    if request is not None and request.deadline_ms is not None:
        metrics.SLACK_SECONDS.labels(tier).observe((request.deadline_ms - outcome.ended_ms) / 1000)


class AddedPartition:
    """A partition that an operator added to `outcomes`; it holds no record of ended requests.

    A request's own partition follows from its key and from the number of partitions that the ledger's topics share. An
    outcome in a partition beyond these is written to its request's own, and committed once it is there.
    """

    def __init__(self, cluster: ClusterSettings, partition: int, count: int, producer: RecordProducer) -> None:
        """`count`: number of partitions that the ledger's topics share."""
        self._topic = topic_name(cluster, topics.OUTCOMES)
        self._partition = partition
        self._count = count
        self._producer = producer
        log.warning(
            "partition %d of %s was added later: its outcomes are moved to the first %d, which know what has ended; "
            "see `pochade doctor`",
            partition,
            self._topic,
            count,
        )

    def serve(self, records: Sequence[Incoming], group: Consumer) -> None:
        """Write these outcomes to their own partitions, wait for the acknowledgements, then commit past them.

        Raises:
            DeliveryFailed: the broker did not take one in time; none is committed, and all are moved again.
        """
        send_all(self._producer, [self._moved(record) for record in records], DELIVERY_S)
        metrics.FALLBACKS.labels(ROLE, "foreign-partition").inc(len(records))
        place = TopicPartition(self._topic, self._partition, records[-1].offset + 1)
        group.commit(offsets=[place], asynchronous=True)

    def _moved(self, record: Incoming) -> Outgoing:
        home = partition_of(record.key or b"", self._count)
        return Outgoing(
            topic=topics.OUTCOMES, key=record.key, value=record.value, headers=record.headers, partition=home
        )

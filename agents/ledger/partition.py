"""One partition of the ledger: its transactional producer, the requests that have ended in it, and making of results.

A partition that an operator added to `outcomes` knows nothing of what has ended; `AddedPartition` moves its outcomes
to where that is known.
"""

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from agents.ledger.broker_clock import BrokerClock
from agents.ledger.remembered import ROLE, Remembered, Send
from agents.ledger.topics import WRITTEN, LedgerTopics
from agents.runtime.records import fitted_dead_letter, outcome_record, outgoing
from planner.serving.ending.outcomes import expired, failed, first_of, result_of
from schemas import topics
from schemas.errors import InvalidRecord, PochadeError, UnknownSchema
from schemas.messages import TIERS, ClassifiedRequest, Outcome, Result, Status
from schemas.record import Headers, Incoming, Outgoing
from schemas.topics import full_name
from streams import log_context, metrics
from streams.clock import now_ms
from streams.codec.avro import decode, encode_result
from streams.kafka.clients import ClusterSettings, topic_name
from streams.kafka.producers.partitioner import partition_of
from streams.kafka.producers.writing import RecordProducer, RecordTooLarge, send_all, size_of
from streams.kafka.transactions.barrier import Barrier, open_reader, write_barrier
from streams.kafka.transactions.transactions import BATCH_BYTES, open_producer, watchdog
from streams.processes.watchdog import Bite

log = logging.getLogger(__name__)

TRANSACTION_S = 30  # as long as a broker may be away until what is under way begins again
MOVED = "pochade_moved_from"  # on an outcome that was written to the partition of its key: it is moved once
MIN_BYTES = 1000  # of a record; no topic takes less
DELIVERY_S = 130.0  # the client gives up after 120 s

OVERLAP = 1000  # outcomes before the group's commit that are looked at again: the largest transaction has as many
Make = Callable[[Sequence[Incoming]], tuple[list[Outgoing], list[str]]]  # what to write, and who ends by it


class MarkerLost(PochadeError):
    """A transaction that a broker reported as committed has no results: what is known of its partition is wrong."""


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
        """`send`: writes chunks of what has ended; None: there are none. `bite`: what to do when a transaction hangs;
        None: end the process, as only a new one gets on. `result_format`: avro | json.

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
        self._made: list[tuple[Outcome, Result]] = []  # the results in hand, counted once they are committed
        self._last: tuple[int, Sequence[str]] | None = None  # the last transaction: its first result, and who ended
        self._format = result_format
        self._watchdog = watchdog("a transaction of the ledger", TRANSACTION_S, bite)
        self.ended = Remembered(cluster, partition, self._topics, self._clock, send)
        with ThreadPoolExecutor(1) as fencing:  # at the same time: either is mostly waiting
            barrier = fencing.submit(self._fence)
            reader = open_reader(cluster, f"{ROLE}.recovery")
            try:
                self.ended.read_chunks(reader)
                self.ended.begin(reader, barrier.result())
            finally:
                reader.close()

    def reopen(self) -> None:
        """A new producer after one that broke; what is known stays, and it reads on.

        Raises:
            MarkerLost: the broker has aborted a transaction that it had said to be committed.
            KafkaException, ClockOff: as the constructor.
        """
        barrier = self._fence()
        reader = open_reader(self._cluster, f"{ROLE}.recovery")
        try:
            if self._last is not None and not self.ended.are_committed(reader, *self._last, barrier):
                raise MarkerLost(f"results of partition {self.partition} were reported as committed and are aborted")
            self.ended.read_on(reader, barrier)
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
        """Write the results of a run of outcomes in one transaction, then commit past them; the ids that ended.

        What is read again, because of a death in between, is known to have ended.
        """
        ended = self._end(records, self._results)
        source = full_name(self._cluster.kafka.prefix, topics.OUTCOMES)
        group.commit(offsets=[TopicPartition(source, self.partition, records[-1].offset + 1)], asynchronous=True)
        return ended

    def end_lost(self, records: Sequence[Incoming]) -> list[str]:
        """End those of outcomes before the group's commit that have no result; whom.

        Where a partition has no leader for a moment, as one with a single copy whose broker ends, Kafka 4.1 to 4.3
        forgets a transaction's marker and reports it as committed (KAFKA-20734); the next producer's first abort, the
        barrier's, hides it for ever. Only the last transaction before a producer can be hit: the marker of the next one
        holds for it, too.
        """
        lost = [record for record in records if self._is_lost(record)]
        ended = self._end(lost, self._results) if lost else []
        if ended:
            metrics.FALLBACKS.labels(ROLE, "lost-marker").inc(len(ended))
            log.warning("the broker lost a committed transaction; %d requests get their result again", len(ended))
        return ended

    def _is_lost(self, record: Incoming) -> bool:
        try:
            outcome = _outcome_in(record, self.ended.since_ms())
        except (InvalidRecord, UnknownSchema):  # it was answered with a dead letter, or waits
            return False
        count, key = self._topics.partitions, record.key or b""
        if count and partition_of(key, count) != self.partition:
            return (
                MOVED not in record.headers
            )  # nobody here knows whether it has arrived; there a second one is dropped
        return not self.ended.among([outcome.request_id])

    def _end(self, records: Sequence[Incoming], make: Make) -> list[str]:
        """End requests in one transaction; one of whose records a topic refuses for its size ends in its own."""
        self._made = []
        written, ids = make(records)
        if not written:
            return []
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
            return self._end(records, make)
        half = len(records) // 2
        return self._end(records[:half], make) + self._end(records[half:], make)

    def _learn(self, written: Sequence[Outgoing]) -> None:
        """The largest of these was refused: its topic takes less."""
        refused = max(written, key=size_of)
        self._limits.refused(refused, was_alone=True)
        metrics.FALLBACKS.labels(ROLE, "refused-size").inc()
        log.warning("%s takes no record of %d bytes: see its max.message.bytes", refused.topic, size_of(refused))
        if size_of(refused) <= MIN_BYTES:
            raise KafkaException(KafkaError(KafkaError.INVALID_MSG_SIZE, f"{refused.topic} takes next to nothing"))

    def expire(self, overdue: Sequence[Incoming]) -> list[str]:
        """End what nobody ended by its deadline; whom. Outcomes that still come are too late."""
        return self._end(overdue, self._expiries)

    def _expiries(self, overdue: Sequence[Incoming]) -> tuple[list[Outgoing], list[str]]:
        since_ms, ends = self.ended.since_ms(), dict[str, tuple[Outcome, Incoming]]()
        for record in overdue:
            # an older one may have ended long ago: this is unknown
            if record.timestamp_ms >= since_ms and (outcome := _overdue(record)) is not None:
                ends.setdefault(outcome.request_id, (outcome, record))  # a request may have been classified twice
        for name in self.ended.among(ends):
            del ends[name]
        written, ids = list[Outgoing](), list[str]()
        for outcome, record in ends.values():
            try:
                if self._moves(outcome_record(outcome, record.headers, now_ms()), written):
                    continue
                written += self._ending(outcome, record)
                ids.append(outcome.request_id)
            except InvalidRecord as error:
                written += self._dead_letter(record, error)
        return written, ids

    def _write(self, written: Sequence[Outgoing], ids: Sequence[str]) -> None:
        """Write all or nothing, and remember the ends. Raises KafkaException: it may be either; `reopen` finds out."""
        told: list[tuple[KafkaError | None, Message]] = []
        last = max((at for at, record in enumerate(written) if record.topic == topics.RESULTS), default=-1)
        self._producer.begin_transaction()
        for at, record in enumerate(written):
            name = full_name(self._cluster.kafka.prefix, record.topic)
            more: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
            if at == last:  # of one alone: a callback for each would take more time than the rest
                more["on_delivery"] = lambda *report: told.append(report)
            self._producer.produce(name, record.value, record.key, headers=list(record.headers.items()), **more)
        with self._watchdog:
            self._producer.commit_transaction(TRANSACTION_S)
        if last >= 0:
            self._remember(told, ids, sum(record.topic == topics.RESULTS for record in written))

    def _remember(self, told: list[tuple[KafkaError | None, Message]], ids: Sequence[str], results: int) -> None:
        if not told:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "a committed record was not reported"))
        message = told[0][1]
        at_ms = message.timestamp()[1]
        self._clock.observe(at_ms)
        end = (message.offset() or 0) + 1
        self.ended.add(ids, at_ms, end)
        self._last = end - results, ids

    def _results(self, records: Sequence[Incoming]) -> tuple[list[Outgoing], list[str]]:
        written: list[Outgoing] = []
        outcomes: list[tuple[Outcome, Incoming]] = []
        since_ms = self.ended.since_ms()
        for record in records:
            try:
                outcome = _outcome_in(record, since_ms)
                as_it_is = Outgoing(topic=topics.OUTCOMES, key=record.key, value=record.value, headers=record.headers)
                if not self._moves(as_it_is, written):
                    outcomes.append((outcome, record))
            except InvalidRecord as error:
                written += self._dead_letter(record, error)
        causes = {id(outcome): record for outcome, record in outcomes}
        ended = self.ended.among(outcome.request_id for outcome, _ in outcomes)
        first = first_of([outcome for outcome, _ in outcomes], ended)
        metrics.LEDGER_DUPLICATES.inc(len(outcomes) - len(first))
        for outcome in first:
            written += self._ending(outcome, causes[id(outcome)])
        return written, [outcome.request_id for outcome in first]

    def _moves(self, outcome: Outgoing, written: list[Outgoing]) -> bool:
        """Whether an outcome belongs to another partition, and is written there: what has ended is known there only.

        Raises:
            InvalidRecord: it was moved here, so that two ledgers differ on how many partitions there are.
        """
        count, key = self._topics.partitions, outcome.key or b""
        if not count or (home := partition_of(key, count)) == self.partition:
            return False
        if MOVED in outcome.headers:
            raise InvalidRecord(f"the outcome of {key!r:.80} belongs to partition {home}, and was moved here before")
        metrics.FALLBACKS.labels(ROLE, "foreign-partition").inc()
        log.warning(
            "the outcome of %.80r lay in partition %d and is moved to its own, %d: which client writes without "
            "partitioner=murmur2_random?", key, self.partition, home,
        )  # fmt: skip
        headers = {**outcome.headers, MOVED: b"%d" % self.partition}
        written.append(dataclasses.replace(outcome, headers=headers, partition=home))
        return True

    def _ending(self, outcome: Outcome, record: Incoming) -> list[Outgoing]:
        """Return the result of an outcome; where none can be made, a FAILED one and the outcome for the dlq."""
        try:
            return [self._result(outcome, record.headers)]
        except Exception as error:  # numbers out of range, a batch of none, too large: the next must still be served
            with log_context.serving(record):
                log.exception("outcome %d@%d makes no result", record.partition, record.offset)
            reason = f"the outcome makes no result: {type(error).__name__}: {str(error)[:500]}"
            bare = failed(outcome.request_id, reason=reason, by=ROLE, now_ms=now_ms())
            letters = self._dead_letter(record, error)
            try:
                return [self._result(bare, {}), *letters]
            except RecordTooLarge:  # an id of hundreds of kilobytes, which no role of ours lets through
                return letters

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
        """Return the dead letter of an outcome; none where the dlq does not even take its headers."""
        metrics.DEAD_LETTERS.labels(ROLE, type(error).__name__).inc()
        request_id, most = (record.key or b"").decode(errors="replace"), self._limits.of(topics.DLQ)
        letter = fitted_dead_letter(record, error=error, role=ROLE, request_id=request_id, most=most)
        if size_of(letter) <= most:
            return [letter]
        metrics.FALLBACKS.labels(ROLE, "no-dead-letter").inc()
        log.error("the dlq takes no dead letter of outcome %d@%d: %s", record.partition, record.offset, error)
        return []


def count_end(outcome: Outcome, result: Result) -> None:
    """Count a request whose result is committed: how it ended, how long it took, and what its deadline left."""
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


def _outcome_in(record: Incoming, since_ms: int) -> Outcome:
    """Raises InvalidRecord also where another result may be: under a foreign key in another partition; of an older one
    in what is forgotten."""
    outcome = decode(record.value, Outcome)
    if outcome.request_id.encode() != record.key:
        raise InvalidRecord(f"the outcome of {outcome.request_id!r:.80} has the key {record.key!r:.80}, not its id")
    if record.timestamp_ms < since_ms:
        days = (since_ms - record.timestamp_ms) / topics.DAY_MS
        raise InvalidRecord(f"the outcome is {days:.1f} days older than what the ledger remembers: it may have ended")
    return outcome


def _overdue(record: Incoming) -> Outcome | None:
    """The end of a classified request whose deadline has passed; None for bytes that are none of ours."""
    try:
        classified = decode(record.value, ClassifiedRequest)
    except UnknownSchema:  # a newer release's: its header has the deadline, and its key is the id
        reason = "it had no result by its deadline; a newer release had classified it"
        return expired((record.key or b"").decode(errors="replace"), reason=reason, by=ROLE, now_ms=now_ms())
    except InvalidRecord:
        classified = None
    if classified is None or classified.request.request_id.encode() != record.key:
        log.warning("%s %d@%d is no classified request", record.topic, record.partition, record.offset)
        return None
    reason = (
        f"it had no result by deadline_ms {classified.request.deadline_ms}: too much work waited before it, no worker "
        "serves what it needs, or a role is stopped; `pochade doctor` says what is missing"
    )
    return expired(classified, reason=reason, by=ROLE, now_ms=now_ms())


class AddedPartition:
    """A partition that an operator added to `outcomes`: nobody knows there what has ended.

    Which partition knows whether a request has ended follows from how many partitions the ledger's topics had together.
    An outcome in a partition beyond these is written to the partition of its key, and committed once it is there.
    """

    def __init__(self, cluster: ClusterSettings, partition: int, count: int, producer: RecordProducer) -> None:
        """`count`: partitions that know what has ended."""
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
        """Write these outcomes where they belong, wait until they are there, then commit past them.

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

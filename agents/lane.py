"""One partition of the ledger: its transactional producer, the ids that have ended in it, and how results are made."""

import dataclasses
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents.writing import buried, outgoing
from planner.outcomes import expired, failed, first_of, result_of
from schemas import topics
from schemas.errors import InvalidRecord, UnknownSchema
from schemas.messages import ClassifiedRequest, Outcome
from schemas.record import Headers, Incoming, Outgoing
from schemas.topics import full_name
from streams import logs, metrics
from streams.admin import client_config
from streams.codec import decode, encode_result
from streams.passing import may_pass
from streams.producer import RecordTooLarge, check_size
from streams.reading import now_ms, poll_batch
from streams.settings import Settings
from streams.transactions import open_producer, watchdog
from streams.watchdog import Bite

log = logging.getLogger(__name__)

ROLE = "ledger"
TRANSACTION_S = 30  # as long as a broker may be away until what is under way begins again
WINDOW_MS = 8 * topics.DAY_MS  # ids are known as long as `results` keeps them: longer than anything upstream


class Lane:
    """One partition: its own transactional producer, and the ids that have ended in it."""

    def __init__(self, settings: Settings, partition: int, bite: Bite | None = None) -> None:
        """`bite`: what to do when a transaction hangs; None: end the process, as only a new one gets on.

        Raises KafkaException: the broker did not answer in time.
        """
        self._settings, self.partition = settings, partition
        self._format = settings.results.format
        self._producer = open_producer(settings, f"{settings.kafka.prefix}.{ROLE}.{partition}", TRANSACTION_S)
        self._watchdog = watchdog("a transaction of the ledger", TRANSACTION_S, bite)
        self._producer.init_transactions(TRANSACTION_S)  # from here on the former owner cannot commit
        self._ended = self._read_ended()

    def _read_ended(self) -> OrderedDict[str, int]:
        """The keys of this partition of `results`, to its end, with their times, the oldest first."""
        config = {
            **client_config(self._settings),
            "group.id": f"{self._settings.kafka.prefix}.{ROLE}.recovery",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,  # at the end the answer is empty: the default waits for half a second first
        }
        consumer = Consumer(config)
        ended: OrderedDict[str, int] = OrderedDict()
        try:
            consumer.assign([TopicPartition(full_name(self._settings.kafka.prefix, topics.RESULTS), self.partition, 0)])
            while True:
                for message in poll_batch(consumer, 10_000, 1):
                    error = message.error()
                    if error is None:
                        ended[(message.key() or b"").decode(errors="replace")] = message.timestamp()[1]
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return ended
                    elif not may_pass(error):
                        raise KafkaException(error)
        finally:
            consumer.close()

    def serve(self, records: Sequence[Incoming], group: Consumer) -> None:
        """Write the results of a run of outcomes in one transaction, then commit past them.

        What is read again, because of a death in between, is known to have ended.
        """
        written, ids = self._results(records)
        self._write(written)
        self._remember(ids, now_ms())
        source = full_name(self._settings.kafka.prefix, topics.OUTCOMES)
        group.commit(offsets=[TopicPartition(source, self.partition, records[-1].offset + 1)], asynchronous=True)

    def expire(self, overdue: Sequence[Incoming]) -> int:
        """End what nobody ended by its deadline; how many there were. Outcomes that still come are too late."""
        open_ones = [record for record in overdue if (record.key or b"").decode(errors="replace") not in self._ended]
        ends: dict[str, tuple[Outcome, Incoming]] = {}
        for record in open_ones:
            if (outcome := _overdue(record)) is not None:
                ends.setdefault(outcome.request_id, (outcome, record))  # a request may have been classified twice
        if ends:
            written = [each for outcome, record in ends.values() for each in _ending(outcome, record, self._format)]
            self._write(written)
            self._remember(ends, now_ms())
        return len(ends)

    def _write(self, written: Sequence[Outgoing]) -> None:
        """All or nothing. Raises KafkaException: it may be either; a new lane knows."""
        self._producer.begin_transaction()
        for record in written:
            name = full_name(self._settings.kafka.prefix, record.topic)
            where = {"partition": self.partition} if record.topic == topics.RESULTS else {}
            self._producer.produce(name, record.value, record.key, headers=list(record.headers.items()), **where)
        with self._watchdog:
            self._producer.commit_transaction(TRANSACTION_S)

    def _remember(self, ids: Iterable[str], now: int) -> None:
        self._ended.update(dict.fromkeys(ids, now))
        while self._ended and next(iter(self._ended.values())) < now - WINDOW_MS:
            self._ended.popitem(last=False)

    def _results(self, records: Sequence[Incoming]) -> tuple[list[Outgoing], set[str]]:
        written: list[Outgoing] = []
        outcomes: list[tuple[Outcome, Incoming]] = []
        for record in records:
            try:
                outcomes.append((_outcome_in(record), record))
            except InvalidRecord as error:
                written.append(_dead_letter(record, error))
        causes = {id(outcome): record for outcome, record in outcomes}
        first = first_of([outcome for outcome, _ in outcomes], self._ended)
        metrics.LEDGER_DUPLICATES.inc(len(outcomes) - len(first))
        for outcome in first:
            written += _ending(outcome, causes[id(outcome)], self._format)
        return written, {outcome.request_id for outcome in first}


def _outcome_in(record: Incoming) -> Outcome:
    """Raises InvalidRecord also under a foreign key: another partition would give the same request another result."""
    outcome = decode(record.value, Outcome)
    if outcome.request_id.encode() != record.key:
        raise InvalidRecord(f"the outcome of {outcome.request_id!r:.80} has the key {record.key!r:.80}, not its id")
    return outcome


def _overdue(record: Incoming) -> Outcome | None:
    """The end of a classified request whose deadline has passed; None for bytes that are none of ours."""
    try:
        classified = decode(record.value, ClassifiedRequest)
    except UnknownSchema:  # a newer release's: its header told the deadline, and its key is the id
        reason = "nobody had ended it by its deadline; a newer release had classified it"
        return expired((record.key or b"").decode(errors="replace"), reason=reason, by=ROLE, now_ms=now_ms())
    except InvalidRecord:
        classified = None
    if classified is None or classified.request.request_id.encode() != record.key:
        log.warning("%s %d@%d is no classified request", record.topic, record.partition, record.offset)
        return None
    reason = f"nobody had ended it by deadline_ms {classified.request.deadline_ms}"
    return expired(classified, reason=reason, by=ROLE, now_ms=now_ms())


def _ending(outcome: Outcome, record: Incoming, format: str) -> list[Outgoing]:
    """The result; FAILED, with the outcome on the dlq, where no result can be made of it."""
    try:
        return [_result(outcome, record.headers, format)]
    except Exception as error:  # numbers out of range, a batch of none, too large: the next must still be served
        with logs.serving(record):
            log.exception("outcome %d@%d makes no result", record.partition, record.offset)
        reason = f"the outcome makes no result: {type(error).__name__}: {str(error)[:500]}"
        bare = failed(outcome.request_id, reason=reason, by=ROLE, now_ms=now_ms())
        letter = _dead_letter(record, error)
        try:
            return [_result(bare, {}, format), letter]
        except RecordTooLarge:  # an id of hundreds of kilobytes, which no role of ours lets through
            return [letter]


def _result(outcome: Outcome, cause: Headers, format: str) -> Outgoing:
    result = result_of(outcome)
    record = outgoing(
        topics.RESULTS, result, request_id=result.request_id, cause=cause, role=ROLE, now_ms=now_ms(),
        facts={"status": result.status},
    )  # fmt: skip
    if format != "avro":
        record = dataclasses.replace(record, value=encode_result(result, format))
    check_size(record)
    return record


def _dead_letter(record: Incoming, error: Exception) -> Outgoing:
    metrics.DEAD_LETTERS.labels(ROLE, type(error).__name__).inc()
    return buried(record, error=error, role=ROLE, request_id=(record.key or b"").decode(errors="replace"))

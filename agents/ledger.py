"""The ledger: `outcomes` -> `results`, exactly one per request, whatever was retried, killed or replayed.

One transactional id a partition. On gaining a partition the ledger fences the former owner, then reads that partition
of `results` to its end, then serves; results and input offsets commit in one transaction (design, section 7).
"""

import dataclasses
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import groupby

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from agents.writing import buried, outgoing
from planner.outcomes import failed, first_of, result_of
from schemas import topics
from schemas.errors import InvalidRecord
from schemas.messages import Outcome
from schemas.record import Headers, Incoming, Outgoing
from schemas.topics import full_name
from streams import metrics
from streams.admin import client_config, set_group_timeouts
from streams.codec import decode
from streams.producer import MOST_BYTES, RecordTooLarge, check_size, size_of
from streams.reading import incoming, now_ms, poll_batch, take
from streams.settings import Settings

log = logging.getLogger(__name__)

ROLE = "ledger"
BATCH = 1000  # outcomes a transaction: one costs 5 ms however many it holds (measured)
TRANSACTION_S = 30
WINDOW_MS = 8 * topics.DAY_MS  # ids are known as long as `results` keeps them: longer than anything upstream


class Lane:
    """One partition: its own transactional producer, and the ids that have ended in it."""

    def __init__(self, settings: Settings, partition: int) -> None:
        self._settings, self.partition = settings, partition
        self._producer = Producer(
            {
                **client_config(settings),
                "transactional.id": f"{settings.kafka.prefix}.{ROLE}.{partition}",
                "transaction.timeout.ms": TRANSACTION_S * 1000,
                "linger.ms": 1,
            }
        )
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
                    elif error.fatal() or not error.retriable():
                        raise KafkaException(error)
        finally:
            consumer.close()

    def serve(self, records: Sequence[Incoming], group: Consumer) -> None:
        """Write the results of a run of outcomes and commit past them, in one transaction."""
        written, ids = self._results(records)
        self._producer.begin_transaction()
        for record in written:
            name = full_name(self._settings.kafka.prefix, record.topic)
            where = {"partition": self.partition} if record.topic == topics.RESULTS else {}
            self._producer.produce(name, record.value, record.key, headers=list(record.headers.items()), **where)
        source = full_name(self._settings.kafka.prefix, topics.OUTCOMES)
        past = TopicPartition(source, self.partition, records[-1].offset + 1)
        self._producer.send_offsets_to_transaction([past], group.consumer_group_metadata(), TRANSACTION_S)
        self._producer.commit_transaction(TRANSACTION_S)
        self._remember(ids, now_ms())

    def _remember(self, ids: Iterable[str], now: int) -> None:
        self._ended.update(dict.fromkeys(ids, now))
        while self._ended and next(iter(self._ended.values())) < now - WINDOW_MS:
            self._ended.popitem(last=False)

    def _results(self, records: Sequence[Incoming]) -> tuple[list[Outgoing], set[str]]:
        written: list[Outgoing] = []
        outcomes: list[tuple[Outcome, Incoming]] = []
        for record in records:
            try:
                outcomes.append((decode(record.value, Outcome), record))
            except InvalidRecord as error:
                written.append(_dead_letter(record, error))
        causes = {id(outcome): record for outcome, record in outcomes}
        first = first_of([outcome for outcome, _ in outcomes], self._ended)
        metrics.LEDGER_DUPLICATES.inc(len(outcomes) - len(first))
        for outcome in first:
            written += _ending(outcome, causes[id(outcome)])
        return written, {outcome.request_id for outcome in first}


def _ending(outcome: Outcome, record: Incoming) -> list[Outgoing]:
    """The result; FAILED, with the outcome on the dlq, where no result can be made of it."""
    try:
        return [_result(outcome, record.headers)]
    except Exception as error:  # numbers out of range, a batch of none, too large: the next must still be served
        log.exception("outcome %d@%d makes no result", record.partition, record.offset)
        reason = f"the outcome makes no result: {type(error).__name__}: {str(error)[:500]}"
        bare = failed(outcome.request_id, reason=reason, by=ROLE, now_ms=now_ms())
        letter = _dead_letter(record, error)
        try:
            return [_result(bare, {}), letter]
        except RecordTooLarge:  # an id of hundreds of kilobytes, which no role of ours lets through
            return [letter]


def _result(outcome: Outcome, cause: Headers) -> Outgoing:
    result = result_of(outcome)
    record = outgoing(
        topics.RESULTS, result, request_id=result.request_id, cause=cause, role=ROLE, now_ms=now_ms(),
        facts={"status": result.status},
    )  # fmt: skip
    check_size(record)
    return record


def _dead_letter(record: Incoming, error: Exception) -> Outgoing:
    metrics.DEAD_LETTERS.labels(ROLE, type(error).__name__).inc()
    name = (record.key or b"").decode(errors="replace")[:100]  # a key may be of any size
    letter = buried(record, error=error, role=ROLE, request_id=name)
    if size_of(letter) <= MOST_BYTES:
        return letter
    return buried(dataclasses.replace(record, headers={}, key=None), error=error, role=ROLE, request_id=name)


class Ledger:
    """Owns lanes as the group assigns partitions. `run` blocks until `stopping` is set."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._group = f"{settings.kafka.prefix}.{ROLE}"

    def run(self, stopping: threading.Event) -> None:
        """Serve; what a transaction cannot survive (fencing, a lost broker) begins again from what is committed."""
        while not stopping.is_set():
            try:
                self._session(stopping)
            except (KafkaException, BufferError):  # BufferError: more waits to be written than the client holds
                log.exception("the ledger's session ended; beginning again from the last commit")
                metrics.RESTARTS.labels(ROLE).inc()
                stopping.wait(0.5)

    def _session(self, stopping: threading.Event) -> None:
        set_group_timeouts(self._settings, [self._group])
        lanes: dict[int, Lane] = {}

        def gain(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            for gained in partitions:
                lanes[gained.partition] = Lane(self._settings, gained.partition)

        def lose(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            for lost in partitions:
                lanes.pop(lost.partition, None)

        consumer = Consumer(
            {
                **client_config(self._settings),
                "group.id": self._group,
                "group.protocol": "consumer",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            consumer.subscribe(
                [full_name(self._settings.kafka.prefix, topics.OUTCOMES)], on_assign=gain, on_revoke=lose, on_lost=lose
            )
            while not stopping.is_set():
                self._serve(take(consumer, BATCH, 0.1), lanes, consumer)
        finally:
            consumer.close()

    def _serve(self, messages: list[Message], lanes: dict[int, Lane], consumer: Consumer) -> None:
        records = [incoming(message, self._settings.kafka.prefix) for message in messages]
        records.sort(key=lambda r: (r.partition, r.offset))
        for partition, run in groupby(records, key=lambda r: r.partition):
            if partition in lanes:  # else taken away while these were on their way: the new owner reads them
                taken = list(run)
                lanes[partition].serve(taken, consumer)
                metrics.RECORDS.labels(ROLE).inc(len(taken))

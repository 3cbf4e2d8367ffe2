"""Finds the end of a partition for a writer that has fenced all others: it writes a record and reads up to it.

A consumer is given the end of the answering broker's log. A leader that was frozen briefly answers with its old log
afterwards: of 909 recoveries beside 40 frozen leaders 9 missed acknowledged records. A record that was acknowledged
after the fence lies behind all commits of the former writer, so an end before it is false. It is written in an aborted
transaction, so readers of committed records never see it.

Readers without a fence cannot do this: their end is only what they have seen so far.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from streams import metrics
from streams.kafka.clients import ClusterSettings
from streams.kafka.consumers.consumer_factory import AT_AN_END_MS, open_consumer
from streams.kafka.consumers.polling import Polled, poll_records
from streams.kafka.errors import may_pass

KEY = b"barrier"  # a compacted topic takes no record without a key
SILENT_S = 30.0  # max time without a record, after which the broker counts as lost
ANSWER_S = 5.0
BATCH = 2000
PREFETCHED_KB = 8_192  # of values that wait in the client: its own default, 64 MB, for each of several partitions

OnRecords = Callable[[Sequence[Message]], None]


@dataclass(frozen=True, slots=True)
class Barrier:
    """The offset of the barrier record, and when the broker took it."""

    offset: int
    at_ms: int
    is_brokers_time: bool = True  # else the topic keeps its writers' times (`message.timestamp.type`)


def write_barrier(producer: Producer, topic: str, partition: int, limit_s: float) -> Barrier:
    """Write the barrier after `init_transactions`: all that former holders of the id committed lies before it.

    Raises KafkaException: the broker did not take it in time.
    """
    reports: list[tuple[KafkaError | None, Message]] = []
    producer.begin_transaction()
    producer.produce(topic, None, KEY, partition=partition, on_delivery=lambda *report: reports.append(report))
    producer.flush(limit_s)
    producer.abort_transaction(limit_s)
    if not reports:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"{topic}/{partition} took no record in {limit_s:g} s"))
    error, message = reports[0]
    if error is not None:
        raise KafkaException(error)
    kind, at_ms = message.timestamp()
    return Barrier(message.offset() or 0, at_ms, kind == TIMESTAMP_LOG_APPEND_TIME)


def open_reader(cluster: ClusterSettings, name: str) -> Consumer:
    """A consumer of committed records without a group, for `read_past` and `read_to_end`."""
    properties = {"fetch.wait.max.ms": AT_AN_END_MS, "queued.max.messages.kbytes": PREFETCHED_KB}
    return open_consumer(cluster, name, properties)


def read_past(consumer: Consumer, start: TopicPartition, barrier: Barrier, on_records: OnRecords) -> None:
    """Hand over all committed records from `start` to the barrier, in batches; those behind it may come too.

    Raises KafkaException: what does not pass by itself, or nothing came for long.
    """
    _read(consumer, start, barrier.offset, on_records)


def read_to_end(consumer: Consumer, start: TopicPartition, on_records: OnRecords) -> None:
    """Hand over committed records from `start` to the end that the answering broker states. Raises as `read_past`."""
    _read(consumer, start, -1, on_records)


def _read(consumer: Consumer, start: TopicPartition, beyond: int, on_records: OnRecords) -> None:
    consumer.assign([start])
    heard_s = time.monotonic()
    while True:
        polled = poll_records(consumer, BATCH, 1)
        if polled.records:
            heard_s = time.monotonic()
            on_records(polled.records)
        if _is_past(polled, beyond):
            return
        if not polled.records:
            _ask_who_leads(consumer, start.topic)
        if time.monotonic() - heard_s > SILENT_S:
            what = f"{start.topic}/{start.partition} was silent for {SILENT_S:g} s before its end"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, what))


def _ask_who_leads(consumer: Consumer, topic: str) -> None:
    """Ask which broker leads, as it may have changed; by itself the client asks every five minutes."""
    try:
        consumer.list_topics(topic, timeout=ANSWER_S)
    except KafkaException as error:
        if not may_pass(error.args[0]):
            raise


def _is_past(polled: Polled, beyond: int) -> bool:
    """Whether nothing up to there can follow."""
    if beyond >= 0 and polled.records and (polled.records[-1].offset() or 0) > beyond:
        return True
    is_past = [(end.offset() or 0) > beyond for end in polled.ends]
    metrics.STALE_ENDS.inc(is_past.count(False))
    return any(is_past)

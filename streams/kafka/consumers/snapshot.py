"""Reads topics: all records until now, live records until stopped, one record, or those between two moments.

No group is joined and nothing is committed.
"""

import logging
import queue
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.errors import InvalidRecord, PochadeError
from schemas.record import Incoming
from schemas.topics import full_name
from streams.broker import probe
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.consumers.consumer_factory import AT_AN_END_MS, open_consumer
from streams.kafka.consumers.polling import incoming, offsets_at, poll_records
from streams.kafka.errors import partitions_of, patiently
from streams.settings import Settings
from streams.visible import counted

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 60.0
TICK_S = 0.2
MAX_SILENCE_S = 30.0  # without any record, until the broker is taken for gone
ANSWER_S = 10.0
BATCH = 500

T = TypeVar("T")
Ends = dict[tuple[str, int], int]  # topic, partition -> offset after the last record wanted


def past(
    settings: Settings,
    topics: Sequence[str],
    *,
    since_ms: int = 0,  # epoch ms; 0: the beginning
    keep: Callable[[Incoming], bool] = lambda _: True,
    timeout_s: float = READ_TIMEOUT_S,
) -> list[Incoming]:
    """The committed records that are there now and `keep` wants, in each partition's order.

    Raises PochadeError: a topic could not be read to its end in time.
    """
    probe.reach(settings)
    found: list[Incoming] = []

    def on_record(record: Incoming) -> None:
        if keep(record):
            found.append(record)

    follower = TopicTailer(settings, topics, on_record, since_ms=since_ms).start()
    try:
        follower.wait_caught_up(timeout_s)
    finally:
        follower.close()
    return found


def readable(records: Iterable[Incoming], read: Callable[[Incoming], T]) -> Iterator[tuple[Incoming, T]]:
    """Yield records with what `read` makes of them. Those of which it raises InvalidRecord are counted in a warning."""
    refused, first = 0, ""
    for record in records:
        try:
            found = read(record)
        except InvalidRecord as error:
            refused += 1
            first = first or f"{record.topic} {record.partition}@{record.offset}: {error}"
        else:
            yield record, found
    if refused:
        log.warning("passed over %s that cannot be read, the first of them %s", counted(refused, "record"), first)


def live(settings: Settings, topics: Sequence[str], *, since_ms: int | None) -> Generator[Incoming | None, None, None]:
    """Records since a moment (None: from now) and what comes, for ever; None when nothing came for a moment."""
    probe.reach(settings)
    inbox: queue.SimpleQueue[Incoming] = queue.SimpleQueue()
    follower = TopicTailer(settings, topics, inbox.put, since_ms=since_ms).start()
    try:
        while True:
            try:
                yield inbox.get(timeout=TICK_S)
            except queue.Empty:
                yield None
    finally:
        follower.close()


def one(settings: Settings, topic: str, partition: int, offset: int, timeout_s: float = 15.0) -> Incoming:
    """Return the record at a position. Raises PochadeError: there is none; the message has the positions that exist."""
    probe.reach(settings)
    name = full_name(settings.kafka.prefix, topic)
    where = TopicPartition(name, partition, offset)
    consumer = open_consumer(settings, "snapshot")
    try:
        begin, end = consumer.get_watermark_offsets(where, timeout=timeout_s)
        if not begin <= offset < end:
            raise PochadeError(
                f"{name} has no record {partition}@{offset}: it holds {partition}@{begin} to before {end}"
            )
        consumer.assign([where])
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            message = consumer.poll(TICK_S)
            if message is not None and message.error() is None:
                return _exactly(incoming(message, settings.kafka.prefix), offset)
        raise PochadeError(f"{name} {partition}@{offset} could not be read within {timeout_s:g} s")
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        raise PochadeError(f"cannot read {name}, partition {partition}: {error.str()}") from None
    finally:
        consumer.close()


def _exactly(record: Incoming, offset: int) -> Incoming:
    if record.offset != offset:
        raise PochadeError(f"{record.topic} {record.partition}@{offset} is gone; the next record is @{record.offset}")
    return record


def oldest_ms(settings: Settings, starts: Ends, timeout_s: float = READ_TIMEOUT_S) -> int | None:
    """Return the time (epoch ms) of the oldest of the first committed records from these offsets on; None without one.

    `starts`: by the topic's name without the prefix, and partition.

    Raises PochadeError: a partition could not be read in time.
    """
    prefix, left = settings.kafka.prefix, set(starts)
    if not left:
        return None
    times = list[int]()
    deadline = time.monotonic() + timeout_s
    consumer = open_consumer(settings, "oldest", {"fetch.wait.max.ms": AT_AN_END_MS})
    try:
        consumer.assign([TopicPartition(full_name(prefix, topic), p, offset) for (topic, p), offset in starts.items()])
        while left:
            if time.monotonic() > deadline:
                names = ", ".join(sorted({topic for topic, _ in left}))
                raise PochadeError(f"could not read the oldest record of {names} within {timeout_s:g} s")
            polled = poll_records(consumer, BATCH, TICK_S)
            for record in (incoming(message, prefix) for message in polled.records):
                if (record.topic, record.partition) in left:
                    left.discard((record.topic, record.partition))
                    times.append(record.timestamp_ms)
            left -= {((end.topic() or "").removeprefix(prefix + "."), end.partition() or 0) for end in polled.ends}
    except KafkaException as failure:
        raise PochadeError(f"cannot read the oldest record: {failure.args[0].str()}") from None
    finally:
        consumer.close()
    return min(times, default=None)


def between(settings: Settings, topics: Sequence[str], since_ms: int, until_ms: int) -> Iterator[Incoming]:
    """Yield the committed records with a timestamp from `since_ms` to before `until_ms` (epoch ms), as they are read.

    Timestamps must not fall within a partition, as the broker's own do not (`BROKERS_CLOCK` in `schemas/topics.py`).

    Raises PochadeError: a topic that there is not, or the broker went away.
    """
    consumer = open_consumer(settings, "window")
    try:
        names = [full_name(settings.kafka.prefix, topic) for topic in topics]
        starts = [start for name in names for start in _at(consumer, name, since_ms)]
        ends = {(tp.topic, tp.partition): tp.offset for name in names for tp in _at(consumer, name, until_ms)}
        wanted = [tp for tp in starts if tp.offset < ends[tp.topic, tp.partition]]
        if wanted:
            consumer.assign(wanted)
            left = {(tp.topic, tp.partition) for tp in wanted}
            yield from _read_until(consumer, settings.kafka.prefix, ends, left)
    except KafkaException as failure:
        reason = failure.args[0].str()
        raise PochadeError(f"cannot read {', '.join(topics)} of {settings.kafka.prefix}: {reason}") from None
    finally:
        consumer.close()


def _at(consumer: Consumer, name: str, moment_ms: int) -> list[TopicPartition]:
    """Return each partition at the offset of its first record at this moment or later, or at its end without one."""

    def end_of(partition: int) -> int:
        asked = TopicPartition(name, partition)
        end: int = patiently(lambda: consumer.get_watermark_offsets(asked, timeout=ANSWER_S), ANSWER_S)[1]
        return end

    partitions = patiently(lambda: partitions_of(consumer, name, ANSWER_S), ANSWER_S)
    return [
        TopicPartition(name, partition, offset if offset >= 0 else end_of(partition))
        for partition, offset in offsets_at(consumer, name, partitions, moment_ms, ANSWER_S).items()
    ]


def _read_until(consumer: Consumer, prefix: str, ends: Ends, left: set[tuple[str, int]]) -> Iterator[Incoming]:
    """Read until each partition's end; a transaction's marker there is met by the record or the end behind it."""
    heard_s = time.monotonic()
    while left:
        polled = poll_records(consumer, BATCH, 0.1)
        for message in polled.records:
            heard_s = time.monotonic()
            place, offset = _place(message), message.offset() or 0
            if offset < ends[place]:
                yield incoming(message, prefix)
            if offset >= ends[place] - 1:
                left.discard(place)
        left -= {_place(end) for end in polled.ends}
        if time.monotonic() - heard_s > MAX_SILENCE_S:
            names = sorted({topic for topic, _ in left})
            raise PochadeError(
                f"nothing came from {', '.join(names)} for {MAX_SILENCE_S:g} s: is the broker reachable?"
            )


def _place(message: Message) -> tuple[str, int]:
    return message.topic() or "", message.partition() or 0

"""Reading from Kafka: messages to `Incoming`, batches without waiting, ends of partitions, and where a moment lies."""

import gc
import operator
from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.record import Incoming
from streams.kafka.errors import TRANSIENT, UNKNOWN_YET, may_pass, patiently

NAMELESS = "\N{REPLACEMENT CHARACTER}"  # a header whose name is not UTF-8: the client loses it


def incoming(message: Message, prefix: str) -> Incoming:
    """A client's message as a value, its topic without the prefix."""
    return Incoming(
        topic=(message.topic() or "").removeprefix(prefix + "."),
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=headers_of(message),
    )


def headers_of(message: Message) -> dict[str, bytes]:
    """A message's headers, whatever their names: the only safe way to ask for them.

    The last of those with the same name; empty where there is no value. For a name that is not UTF-8 confluent-kafka
    2.16.1 returns a list with a hole and sets an error, the next time the list alone; who looks into the hole ends the
    process by SIGSEGV. A plain call does not notice the error once the interpreter has specialised it (Python 3.11);
    `operator.call` is sure to.
    """
    try:
        pairs = operator.call(message.headers) or []
    except SystemError:  # "returned a result with an exception set"
        pairs = [_whole(pair) for pair in operator.call(message.headers)]
        message.set_headers(pairs)  # for later readers of the message
    return {name: value or b"" for name, value in pairs}


def _whole(pair: tuple[str, bytes | None]) -> tuple[str, bytes | None]:
    """A header, or its value under no name: the place of the name holds no object, and must not be looked at."""
    held = gc.get_referents(pair)
    return pair if len(held) == 2 else (NAMELESS, held[0] if held else None)


def poll_batch(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """Up to `most` messages, errors among them: waits for the first only (`consume(n, t)` waits out t, measured)."""
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *(consumer.consume(most - 1, 0) if most > 1 else [])]


class Polled(NamedTuple):
    """The records, and the ends of partitions, that a poll has returned."""

    records: list[Message]  # in each partition's order
    ends: list[Message]  # ends of partitions, as the answering broker knows them: `offset()` is the next record's


def poll_records(consumer: Consumer, most: int, timeout_s: float) -> Polled:
    """Return up to `most` records and ends of partitions; transient errors are left out.

    Raises KafkaException: what does not pass, such as a missing right.
    """
    polled = Polled([], [])
    for message in poll_batch(consumer, most, timeout_s):
        error = message.error()
        if error is None:
            polled.records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            polled.ends.append(message)
        elif not may_pass(error):
            raise KafkaException(error)
    return polled


def offsets_at(
    consumer: Consumer, topic: str, partitions: Iterable[int], moment_ms: int, limit_s: float
) -> dict[int, int]:
    """Return partition -> offset of its first record at or after a time (epoch ms).

    The offset is below 0 if the answering broker knows no such record. The question is repeated for a new topic. Raises
    KafkaException if the cluster does not answer in time, or refuses.
    """
    asked = [TopicPartition(topic, partition, moment_ms) for partition in partitions]

    def ask() -> dict[int, int]:
        found = consumer.offsets_for_times(asked, timeout=limit_s)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return {each.partition: each.offset for each in found}

    return patiently(ask, limit_s, also=UNKNOWN_YET)


def take(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """Take up to `most` records. Raises KafkaException: what is not transient, such as a missing right."""
    messages = poll_batch(consumer, most, timeout_s)
    for message in messages:
        error = message.error()
        if error is not None and error.code() not in TRANSIENT:
            raise KafkaException(error)
    return [m for m in messages if m.error() is None]

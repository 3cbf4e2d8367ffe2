"""What lies on topics: all of it by now, live until told to stop, or one record. No group, nothing is committed."""

import queue
import time
from collections.abc import Callable, Generator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import full_name
from streams.broker import embedded
from streams.kafka.clients import client_config
from streams.kafka.consumer import Follower, incoming
from streams.settings import Settings

READ_TIMEOUT_S = 60.0
TICK_S = 0.2


def past(
    settings: Settings,
    topics: Sequence[str],
    *,
    since_ms: int = 0,  # epoch ms; 0: the beginning
    keep: Callable[[Incoming], bool] = lambda _: True,
    timeout_s: float = READ_TIMEOUT_S,
) -> list[Incoming]:
    """The committed records that are there now and `keep` wants, in each partition's order.

    Raises:
        PochadeError: a topic could not be read to its end in time.
    """
    embedded.reach(settings)
    found: list[Incoming] = []

    def on_record(record: Incoming) -> None:
        if keep(record):
            found.append(record)

    follower = Follower(settings, topics, on_record, since_ms=since_ms).start()
    try:
        follower.wait_caught_up(timeout_s)
    finally:
        follower.close()
    return found


def live(settings: Settings, topics: Sequence[str], *, since_ms: int | None) -> Generator[Incoming | None, None, None]:
    """Records since a moment (None: from now) and what comes, for ever; None when nothing came for a moment."""
    embedded.reach(settings)
    inbox: queue.SimpleQueue[Incoming] = queue.SimpleQueue()
    follower = Follower(settings, topics, inbox.put, since_ms=since_ms).start()
    try:
        while True:
            try:
                yield inbox.get(timeout=TICK_S)
            except queue.Empty:
                yield None
    finally:
        follower.close()


def one(settings: Settings, topic: str, partition: int, offset: int, timeout_s: float = 15.0) -> Incoming:
    """The record at a position.

    Raises:
        PochadeError: there is none, with the positions that there are.
    """
    embedded.reach(settings)
    name = full_name(settings.kafka.prefix, topic)
    where = TopicPartition(name, partition, offset)
    group = f"{settings.kafka.prefix}.snapshot"  # never used
    consumer = Consumer({**client_config(settings), "group.id": group, "enable.auto.commit": False})
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

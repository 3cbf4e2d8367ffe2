"""What was written to topics between two moments: read once, in each partition's order, without a group."""

import time
from collections.abc import Iterator, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import full_name
from streams.kafka.clients import client_config
from streams.kafka.consumer import incoming, poll_batch
from streams.kafka.errors import may_pass, partitions_of, patiently
from streams.settings import Settings

PATIENCE_S = 30.0  # without any record, until the broker is taken for gone
ANSWER_S = 10.0
BATCH = 500

Ends = dict[tuple[str, int], int]  # topic, partition -> offset after the last record wanted


def between(settings: Settings, topics: Sequence[str], since_ms: int, until_ms: int) -> Iterator[Incoming]:
    """The committed records with a timestamp from `since_ms` to before `until_ms` (epoch ms), as they are read.

    Timestamps must not fall within a partition, as the broker's own do not (`BROKERS_CLOCK` in `schemas/topics.py`).

    Raises:
        PochadeError: a topic that there is not, or the broker went away.
    """
    consumer = Consumer(
        {
            **client_config(settings),
            "group.id": f"{settings.kafka.prefix}.window",  # never used: no commits, no membership
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        names = [full_name(settings.kafka.prefix, topic) for topic in topics]
        starts = [start for name in names for start in _at(consumer, name, since_ms)]
        ends = {(tp.topic, tp.partition): tp.offset for name in names for tp in _at(consumer, name, until_ms)}
        wanted = [tp for tp in starts if tp.offset < ends[tp.topic, tp.partition]]
        if wanted:
            consumer.assign(wanted)
            left = {(tp.topic, tp.partition) for tp in wanted}
            yield from _read(consumer, settings.kafka.prefix, ends, left)
    except KafkaException as failure:
        told = failure.args[0].str()
        raise PochadeError(f"cannot read {', '.join(topics)} of {settings.kafka.prefix}: {told}") from None
    finally:
        consumer.close()


def _at(consumer: Consumer, name: str, moment_ms: int) -> list[TopicPartition]:
    """Each partition with the offset of its first record at this moment or later; of its end where there is none."""

    def look() -> list[TopicPartition]:
        asked = [TopicPartition(name, p, moment_ms) for p in partitions_of(consumer, name, ANSWER_S)]
        found = consumer.offsets_for_times(asked, timeout=ANSWER_S)
        for tp in found:
            if tp.error is not None:
                raise KafkaException(tp.error)
            if tp.offset < 0:
                tp.offset = consumer.get_watermark_offsets(TopicPartition(name, tp.partition), timeout=ANSWER_S)[1]
        return list(found)

    return patiently(look, ANSWER_S)


def _read(consumer: Consumer, prefix: str, ends: Ends, left: set[tuple[str, int]]) -> Iterator[Incoming]:
    """Until each partition's end is met; a transaction's marker there is met by the record or the end behind it."""
    heard_s = time.monotonic()
    while left:
        for message in poll_batch(consumer, BATCH, 0.1):
            place, error = (message.topic() or "", message.partition() or 0), message.error()
            if error is None:
                heard_s = time.monotonic()
                offset = message.offset() or 0
                if offset < ends[place]:
                    yield incoming(message, prefix)
                if offset >= ends[place] - 1:
                    left.discard(place)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(place)
            elif not may_pass(error):
                raise KafkaException(error)
        if time.monotonic() - heard_s > PATIENCE_S:
            names = sorted({topic for topic, _ in left})
            raise PochadeError(f"nothing came from {', '.join(names)} for {PATIENCE_S:g} s: is the broker reachable?")

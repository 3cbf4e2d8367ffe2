"""Finds a member of a group that polls and is given none of the records that lie on its partitions.

A broker that came back has left librdkafka so for minutes: with a partition that it fetches nothing of, and without an
error (librdkafka issue 4492; seen once here, a worker that took none of 120 jobs for 200 s). Only a new client helps.
"""

import contextlib
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from schemas.errors import PochadeError
from streams.kafka.clients import ANSWER_LIMIT_S, ClusterSettings
from streams.kafka.consumers.consumer_factory import open_consumer
from streams.kafka.consumers.polling import poll_records

WAIT_S = 30.0  # without a record, before the cluster is asked: 100 ms a partition, of an idle member as often
ANSWER_S = 2.0  # for the position of a member, and for the ends of its partitions

Place = tuple[str, int]  # topic, partition


class FetchWatch:
    """Watches one member; asked by the thread that polls."""

    def __init__(self, cluster: ClusterSettings, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock_s = clock_s
        self._since_s: float | None = None  # since when each poll has given nothing, or the cluster was asked
        self._left: set[Place] = set()  # where a record lay that the member was not given, when it was last asked

    def left_behind(self, consumer: Consumer, *, is_served: bool) -> list[Place]:
        """Return the places whose records the member is not given: they lay there WAIT_S ago, and lie there now.

        `is_served`: the last poll gave a record, or the member reads nothing for now.
        """
        now_s = self._clock_s()
        if is_served or self._since_s is None:
            self._since_s, self._left = (None if is_served else now_s), set()
            return []
        if now_s - self._since_s < WAIT_S:
            return []
        before, self._since_s, self._left = self._left, now_s, set()
        try:
            self._left = self._with_records(self._behind(consumer))
        except (KafkaException, PochadeError):
            return []  # no answer is no evidence: the cluster is asked again
        return sorted(before & self._left)

    def _behind(self, consumer: Consumer) -> list[TopicPartition]:
        """Return where the member goes on, of partitions that have offsets from there on.

        Markers of transactions that it was sent lie before its position.
        """
        places = consumer.position(consumer.assignment())
        unread = [each for each in places if each.offset < 0]  # it was given no record of them yet
        places = [each for each in places if each.offset >= 0]
        if unread:
            places += [each for each in consumer.committed(unread, timeout=ANSWER_S) if each.error is None]
        behind = []
        for each in places:
            first, end = consumer.get_watermark_offsets(each, timeout=ANSWER_S)
            begin = max(first, each.offset)
            if begin < end:
                behind.append(TopicPartition(each.topic, each.partition, begin))
        return behind

    def _with_records(self, places: list[TopicPartition]) -> set[Place]:
        """Return the partitions that another client reads a record of, from these offsets on."""
        if not places:
            return set()
        found, asked = set[Place](), {(each.topic, each.partition) for each in places}
        with contextlib.closing(open_consumer(self._cluster, "fetch-watch")) as reader:
            reader.assign(places)
            until_s = time.monotonic() + ANSWER_LIMIT_S
            while asked and time.monotonic() < until_s:
                polled = poll_records(reader, len(asked), 0.1)
                records = {_place(message) for message in polled.records}
                found |= records
                asked -= records | {_place(message) for message in polled.ends}
        return found


def _place(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0

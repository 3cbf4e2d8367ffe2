"""Holds back records whose schema a role has not learnt yet, and those behind them on the partition.

Between roles such a record is a newer release's, and it can be served later: it becomes readable when its writer
announces the schema, a registry knows it, or its reader is upgraded. It holds up its own partition only, and for 10
minutes a day in all after both answered that there is no such schema: then records of the id are set aside as unread.
On a public topic it may be garbage, which must not stop a partition: records there share a short wait each minute, in
which a registry is asked, and are then refused.
"""

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from schemas.later import LATER
from schemas.record import Incoming
from schemas.topics import PUBLIC, full_name
from streams import metrics
from streams.codec.avro import awaited_schema

log = logging.getLogger(__name__)

Place = tuple[str, int]  # topic without the prefix, partition

RETRY_S = 0.2  # between two looks
GRACE_S = 2.0  # wait on public topics: a writer announces its schema just before, and a registry takes a moment
GRACE_EVERY_S = 60.0  # a flood of bad records may hold up good ones for this part of the time: 3 %
UNKNOWN_S = 600.0  # that records between roles wait for schemas which the topic `schemas` and a registry do not have
UNKNOWN_EVERY_S = 86_400.0  # whatever the number of ids: a flood of them holds up a partition for 10 minutes a day
SEARCH_S = 15.0  # from one look at the topic and the registry to the next; ids that were not looked for need not wait
DENIED_RETRIES = 2  # at a record on a public topic, where a registry has answered that it does not know the id


class Grace:
    """The time that ids of unknown schemas are waited for once there is no such schema, of one process.

    It runs between two looks that both found an id neither on the topic `schemas`, read to its end, nor in the
    registry; while the broker or the registry is silent it stands still.
    """

    def __init__(self) -> None:
        self._begun_s = -UNKNOWN_EVERY_S
        self._spent_s = 0.0
        self._looked_s = 0.0
        self._denied = frozenset[int]()

    def over(self, denied: frozenset[int], now_s: float) -> frozenset[int]:
        """Return the ids that are waited for no longer. `denied`: those that a look found nowhere; empty if it failed.

        All ids share UNKNOWN_S in UNKNOWN_EVERY_S: once these are spent, one look decides.
        """
        if now_s - self._begun_s >= UNKNOWN_EVERY_S and denied:
            self._begun_s, self._spent_s = now_s, 0.0
        if denied & self._denied:
            self._spent_s += min(now_s - self._looked_s, 2 * SEARCH_S)
        self._denied, self._looked_s = denied, now_s
        return denied if self._spent_s >= UNKNOWN_S else frozenset()


def awaited(topic: str, value: bytes | None) -> int | None:
    """Return the schema id that a record waits for, None if it need not wait. `topic`: without the prefix.

    Between roles the id is looked for from now on, also if the record lies behind another that waits.
    """
    schema_id = awaited_schema(value)
    if schema_id is not None and topic not in PUBLIC:
        LATER.hold(schema_id)
    return schema_id


class SchemaWait:
    """The state of one reader's waits for schemas, one a partition."""

    def __init__(self, role: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._role = role
        self._clock_s = clock_s
        self._whys: dict[Place, str] = {}
        self._grace_s = -GRACE_EVERY_S  # when the current grace of public topics began
        self._looks: Counter[int] = Counter()  # id -> looks of the current grace

    @property
    def why(self) -> str:
        """The schema that the role waits for, "" if none; any thread may ask."""
        whys = list(self._whys.values())
        return whys[0] + (f" (and {len(whys) - 1} partitions more wait)" if len(whys) > 1 else "") if whys else ""

    def waits(self, record: Incoming) -> bool:
        """Whether to look at the record again in RETRY_S, and to let those behind it wait; False: it is to be served or
        refused."""
        schema_id = awaited(record.topic, record.value)
        if schema_id is None:
            return False
        if record.topic in PUBLIC:
            return self._has_grace(schema_id)
        self.for_schema(record.topic, record.partition, record.offset, schema_id)
        return True

    def for_schema(self, topic: str, partition: int, offset: int, schema_id: int) -> None:
        """Begin to wait for a record's schema: logged once, and given by `why` until `ends`."""
        why = (
            f"unknown schema id {schema_id} of topic {topic} at {partition}@{offset}: "
            "upgrade this role, or set registry.url to a registry that has it"
        )
        if why != self._whys.get((topic, partition)):
            self._whys[topic, partition] = why
            metrics.AWAITED_SCHEMAS.labels(self._role).inc()
            log.error("%s waits: %s", self._role, why)

    def _has_grace(self, schema_id: int) -> bool:
        """Whether there is time left for a record on a public topic.

        An id that a registry does not know leaves the rest of the time to others, so that each is asked for before its
        record is refused.
        """
        now_s = self._clock_s()
        if now_s - self._grace_s >= GRACE_EVERY_S:
            self._grace_s = now_s
            self._looks.clear()
        is_denied = self._looks[schema_id] >= DENIED_RETRIES and LATER.is_denied(schema_id)
        if is_denied or self._looks.total() * RETRY_S >= GRACE_S:
            return False
        self._looks[schema_id] += 1
        return True

    def ends(self, topic: str, partition: int) -> None:
        """End the wait of a partition: its record is readable or set aside, or the partition is another reader's."""
        if self._whys.pop((topic, partition), ""):
            log.warning("%s goes on with partition %d of %s", self._role, partition, topic)


class WaitingMessages:
    """Messages that a consumer polled and cannot read yet, as a newer release wrote them, and those behind them.

    Of one consumer, in its thread. A partition waits as a whole: it is paused, and its order stays.

    The consumer is polled on meanwhile, so that it stays in its group and a newer member may take the partition over.
    """

    def __init__(self, consumer: Consumer, prefix: str, wait: SchemaWait) -> None:
        """`prefix`: of the deployment's topics. `wait` holds what is waited for, to be shown by probes."""
        self._consumer = consumer
        self._prefix = prefix
        self._wait = wait
        self._held: list[Message] = []

    @property
    def holds(self) -> bool:
        """Whether a partition is paused."""
        return bool(self._held)

    def readable(self, polled: Sequence[Message]) -> list[Message]:
        """Return the records that can be read now, of the polled ones and of those held back."""
        if not self._held and not any(awaited_schema(message.value()) for message in polled):
            return list(polled)
        before, blocked = {self._place(message) for message in self._held}, set[Place]()
        ready, held = list[Message](), list[Message]()
        for message in (*self._held, *polled):
            place = topic, partition = self._place(message)
            schema_id = awaited(topic, message.value())
            if schema_id is not None and place not in blocked:
                blocked.add(place)
                self._wait.for_schema(topic, partition, message.offset() or 0, schema_id)
            (held if place in blocked else ready).append(message)
        self._held = held
        self._pause(blocked - before, before - blocked)
        return ready

    def _pause(self, held: Collection[Place], goes_on: Collection[Place]) -> None:
        if held:
            self._consumer.pause([self._position(place) for place in held])
        if goes_on:
            self._consumer.resume([self._position(place) for place in goes_on])
        for place in goes_on:
            self._wait.ends(*place)

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop the records held back on revoked partitions: their new owner reads them."""
        if not self._held:
            return
        with contextlib.suppress(KafkaException):  # lost, not revoked: there is nothing to resume
            self._consumer.resume(list(partitions))  # else it would still be paused when it comes back
        lost = {(each.topic.removeprefix(self._prefix + "."), each.partition) for each in partitions}
        self._held = [message for message in self._held if self._place(message) not in lost]
        for place in lost:
            self._wait.ends(*place)

    def _place(self, message: Message) -> Place:
        return (message.topic() or "").removeprefix(self._prefix + "."), message.partition() or 0

    def _position(self, place: Place) -> TopicPartition:
        return TopicPartition(full_name(self._prefix, place[0]), place[1])

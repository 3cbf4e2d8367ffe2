"""Holds back records whose schema a role has not learnt yet, and those behind them on the partition.

Between roles such a record is a newer release's, and it can be served later: it becomes readable when its writer
announces the schema, a registry knows it, or its reader is upgraded. On a public topic it may be garbage, which must
not stop a partition: records there share a short wait each minute, in which a registry is asked, and are then refused.
"""

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from schemas.errors import UnknownSchema
from schemas.later import LATER, may_come
from schemas.record import Incoming
from schemas.topics import PUBLIC
from streams import metrics
from streams.codec.avro import awaited_schema

log = logging.getLogger(__name__)

RETRY_S = 0.2  # between two looks
GRACE_S = 2.0  # wait on public topics: a writer announces its schema just before, and a registry takes a moment
GRACE_EVERY_S = 60.0  # a flood of bad records may hold up good ones for this part of the time: 3 %
DENIED_RETRIES = 2  # at a record on a public topic, where a registry has answered that it does not know the id


class SchemaWait:
    """The state of one reader's wait for a schema. `why` may be read by any thread."""

    def __init__(self, role: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._role = role
        self._clock_s = clock_s
        self.why = ""  # what the role waits for
        self._grace_s = -GRACE_EVERY_S  # when the current grace began
        self._looks: Counter[int] = Counter()  # id -> looks of the current grace

    def waits(self, record: Incoming, error: UnknownSchema) -> bool:
        """Whether to look at the record again in AGAIN_S; False: it is refused."""
        if record.topic in PUBLIC:
            return self._has_grace(error.schema_id)
        if not may_come(error.schema_id):
            return False
        self.for_schema(record.topic, record.partition, record.offset, error.schema_id)
        return True

    def for_schema(self, topic: str, partition: int, offset: int, schema_id: int) -> None:
        """Begin to wait for a record's schema: logged once, and given by `why` until `ends`."""
        why = (
            f"unknown schema id {schema_id} of topic {topic} at {partition}@{offset}: "
            "upgrade this role, or set registry.url to a registry that has it"
        )
        if why != self.why:
            self.why = why
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

    def ends(self) -> None:
        """End the wait: the record is readable, or its partition is another reader's by now."""
        if self.why:
            log.warning("%s goes on: the schema is known", self._role)
            self.why = ""


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

    def readable(self, polled: Sequence[Message]) -> list[Message]:
        """Return the records that can be read now, of the polled ones and of those held back."""
        if not self._held and not any(awaited_schema(message.value()) for message in polled):
            return list(polled)
        before, blocked = _partitions(self._held), set[tuple[str, int]]()
        ready, held = list[Message](), list[Message]()
        for message in (*self._held, *polled):
            place = _place(message)
            schema_id = None if place in blocked else awaited_schema(message.value())
            if schema_id is not None:
                blocked.add(place)
                topic, partition = place
                at = message.offset() or 0
                self._wait.for_schema(topic.removeprefix(self._prefix + "."), partition, at, schema_id)
            (held if place in blocked else ready).append(message)
        self._held = held
        self._pause(blocked - before, before - blocked)
        return ready

    def _pause(self, held: Collection[tuple[str, int]], goes_on: Collection[tuple[str, int]]) -> None:
        if held:
            self._consumer.pause([TopicPartition(*place) for place in held])
        if goes_on:
            self._consumer.resume([TopicPartition(*place) for place in goes_on])
        if not self._held:
            self._wait.ends()

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop the records held back on revoked partitions: their new owner reads them."""
        if not self._held:
            return
        with contextlib.suppress(KafkaException):  # lost, not revoked: there is nothing to resume
            self._consumer.resume(list(partitions))  # else it would still be paused when it comes back
        lost = {(each.topic, each.partition) for each in partitions}
        self._held = [message for message in self._held if _place(message) not in lost]
        if not self._held:
            self._wait.ends()


def _place(message: Message) -> tuple[str, int]:
    return message.topic() or "", message.partition() or 0


def _partitions(messages: Iterable[Message]) -> set[tuple[str, int]]:
    return {_place(message) for message in messages}

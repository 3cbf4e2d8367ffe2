"""The lease of the planner: one planner of a pipeline may write plans, and the broker refuses former holders.

A transactional id of the pipeline fences: taking the lease bumps its epoch, and no transaction of an older holder
commits any more. The holder's beats are a committed offset of the group `PREFIX.planner` on the plan's topic, written
in transactions too: only the newest is kept, the plan's topic does not grow by it, and a holder that was fenced hears
of it at its next beat. Rejected: a consumer group's assignment, which makes a restarted planner wait for the session of
the dead one.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from schemas import topics
from schemas.errors import PochadeError
from schemas.record import Outgoing
from schemas.topics import full_name
from streams.kafka.clients import topic_name
from streams.kafka.consumers.consumer_factory import open_consumer
from streams.kafka.consumers.offsets import committed
from streams.kafka.transactions.barrier import Barrier, write_barrier
from streams.kafka.transactions.transactions import is_fenced, open_producer, watchdog
from streams.processes.watchdog import Bite
from streams.settings import Settings

log = logging.getLogger(__name__)

TAKE_S = 30  # a broker that has just begun looks its transactions up for some seconds
TRANSACTION_S = 10
MEET_S = 3  # until a broker that says nothing is taken for gone


class LeaseLost(PochadeError):
    """Another planner holds the lease, or the broker did not take the holder's records; none of them is committed."""


class Lease(Protocol):
    """Port of the lease, which one planner holds at a time. Not thread-safe."""

    def take(self) -> Barrier:
        """Become the holder; the former one can no longer write, and all its records lie before the barrier.

        Raises PochadeError: the broker refuses.
        """

    def write(self, records: Sequence[Outgoing], beat: int) -> None:
        """Write these and a beat (epoch ms; 0: resigns), all or nothing; on return readers of committed records see it.

        Raises LeaseLost: not the holder (any more); only `take` makes it one again.
        """

    def last_beat(self) -> int:
        """The newest beat of any holder, seen soon after it was written; 0: none ever, or the last one resigned."""

    def close(self) -> None:
        """Release the clients; a holder that has not resigned falls silent."""


class KafkaLease:
    """A `Lease` by Kafka's transactions."""

    def __init__(self, settings: Settings, bite: Bite | None = None) -> None:
        """`bite`: called if a transaction hangs; None to end the process, as only a new one can continue."""
        self._settings = settings
        self._watchdog = watchdog("a beat of the leading planner", TRANSACTION_S, bite)
        self._name = f"{settings.kafka.prefix}.planner"
        self._beats_at = topic_name(settings, topics.PLAN)
        self._producer: Producer | None = None
        self._membership: object = None  # what the group takes the holder for, which never joins it
        self._group: Consumer | None = None  # asks for beats; a holder needs none

    def take(self) -> Barrier:
        self._producer = open_producer(self._settings, self._name, TRANSACTION_S)
        self._membership = self._asking().consumer_group_metadata()
        self._end_asking()
        try:
            self._producer.init_transactions(TAKE_S)
            with self._watchdog:
                return write_barrier(self._producer, self._beats_at, 0, TRANSACTION_S / 2)
        except KafkaException as error:
            self._producer = None
            raise PochadeError(f"cannot take the planner's lease {self._name}: {error.args[0].str()}") from error

    def write(self, records: Sequence[Outgoing], beat: int) -> None:
        if self._producer is None:
            raise LeaseLost("the planner's lease was not taken")
        try:
            self._meet_broker(self._producer)
            self._commit(self._producer, records, beat)
        except (KafkaException, BufferError) as error:
            self._producer = None  # a transaction that is open is aborted by the next one to take the lease
            raise LeaseLost(_describe(error)) from error

    def _meet_broker(self, producer: Producer) -> None:
        """A producer that goes through a broker's restart may hang in its next beat: one that cannot see any is given
        up. Three of six restarts left a planner hanging (streams/kafka/transactions/transactions.py)."""
        if not producer.list_topics(self._beats_at, timeout=MEET_S).brokers:
            raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE))

    def _commit(self, producer: Producer, records: Sequence[Outgoing], beat: int) -> None:
        producer.begin_transaction()
        for record in records:
            name = full_name(self._settings.kafka.prefix, record.topic)
            producer.produce(name, record.value, record.key, headers=list(record.headers.items()))
        at = [TopicPartition(self._beats_at, 0, beat)]
        with self._watchdog:
            producer.send_offsets_to_transaction(at, self._membership, TRANSACTION_S)
        with self._watchdog:
            producer.commit_transaction(TRANSACTION_S)

    def last_beat(self) -> int:
        asked = [TopicPartition(self._beats_at, 0)]
        try:
            (beat,) = committed(self._asking(), asked, TRANSACTION_S).values()
        except KafkaException as error:
            raise PochadeError(f"cannot read the beats of {self._name}: {error.args[0].str()}") from error
        return beat

    def close(self) -> None:
        self._producer = None
        self._end_asking()

    def _asking(self) -> Consumer:
        if self._group is None:  # read_committed would wait for a transaction that a dead holder left open
            self._group = open_consumer(self._settings, "planner", {"isolation.level": "read_uncommitted"})
        return self._group

    def _end_asking(self) -> None:
        if self._group is not None:
            self._group.close()
            self._group = None


def _describe(error: Exception) -> str:
    cause = error.args[0] if error.args else None
    if isinstance(cause, KafkaError) and is_fenced(cause):
        return f"a newer planner leads: {cause.str()}"
    return f"the broker did not take what the leading planner wrote: {error}"

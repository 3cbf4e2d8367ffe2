"""A worker's share of one variant's job topic: batches to generate, attempts that survive a crash, commits after acks.

One window is taken, generated without polling, its result acknowledged, then committed: measured, pausing and resuming
costs up to a second a job. Before generation, the jobs in flight are committed as metadata of the unchanged offset, so
that a job which kills its workers is found: the jobs in flight of a dead worker are taken one by one, so that the next
death has a single job in flight.

    in hand at death            | committed             | the next owner takes
    offsets 5 to 9, or more     | 5, attempt=0 until=10 | 5 to 9 alone each, as attempts 2
    5 alone, for the N-th time  | 5, attempt=N until=10 | 5 alone, as attempt N + 1; 6 to 9 alone each, as attempts 2
    none, 5 is done             | 6, attempt=0 until=10 | 6 to 9 alone each, as attempts 2
    none, it waits for a store  | 5, attempt=0          | 5 and those behind it, as attempts 1
"""

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from agents.worker.resuming import Resumer
from planner.serving.dispatch.worker import attempts_before, counted_attempts, jobs_at_once
from planner.serving.resuming import Unfinished
from schemas.messages import OwnedPartition
from schemas.record import Incoming
from schemas.topics import full_name, jobs_topic, worker_group
from streams import metrics
from streams.codec.schema_wait import SchemaWait, WaitingMessages
from streams.kafka.consumers.consumer_factory import open_member
from streams.kafka.consumers.offsets import LogEnds
from streams.kafka.consumers.polling import incoming, take
from streams.kafka.groups.groups import member_config
from streams.kafka.groups.members import IdleMember
from streams.settings import Settings

PREFETCHED = 1000  # jobs that lie here when a call ends, so that the next one is full; at 1 most were of one image
log = logging.getLogger(__name__)

METADATA = re.compile(r"attempt=(\d+) until=(\d+)")


class Suspect(NamedTuple):
    """The jobs that a dead owner of a partition had in flight: the offsets from `offset` to below `until`."""

    offset: int
    until: int
    attempts: int  # owners that died with the first of them in hand; 0: it was in company

    def metadata(self) -> str:
        """The metadata to commit at `offset`; empty where nothing is left."""
        return f"attempt={self.attempts} until={self.until}" if self.until > self.offset else ""


@dataclass(frozen=True, slots=True)
class Taken:
    """A record with the number of owners that had it in hand, this one included."""

    record: Incoming
    attempt: int
    has_ended: bool = False  # its request has a result, found where nothing was committed

    @property
    def place(self) -> tuple[int, int]:
        """Partition and offset of its record."""
        return self.record.partition, self.record.offset


class JobSource:
    """The consumer of a variant's jobs in the variant's group; used by one thread, except for `owned`."""

    def __init__(self, settings: Settings, variant: str) -> None:
        self._prefix = settings.kafka.prefix
        topic = jobs_topic(variant, 1)
        self._topic = full_name(self._prefix, topic.name)
        self._resumer = Resumer(settings, topic)
        self._found: dict[int, Unfinished] = {}  # owned partition -> what is open of it, where nothing was committed
        self._suspects: dict[int, Suspect] = {}  # by owned partition
        self._next: dict[int, int] = {}  # owned partition -> offset to take next
        self._waiting: list[Message] = []  # polled and not taken: they followed one that is to be alone
        self._is_leaving = False
        self._ends = LogEnds(settings)
        own = {
            "max.poll.interval.ms": int(max(settings.worker.job_timeout_s * 2, 60) * 1000),
            "queued.min.messages": PREFETCHED,
            "fetch.queue.backoff.ms": 10,
        }
        self._spare_s = time.monotonic() + settings.kafka.session_timeout_ms / 1000
        group = worker_group(self._prefix, variant)
        self._consumer = open_member(member_config(settings, group), own)
        self._idle = IdleMember(settings, group)
        self.schemas = SchemaWait("worker")
        self._held_back = WaitingMessages(self._consumer, self._prefix, self.schemas)
        self._consumer.subscribe([self._topic], on_assign=self._gain, on_revoke=self._lose, on_lost=self._lose)

    @property
    def has_joined(self) -> bool:
        """Whether the group has given it partitions, so that jobs reach it, or has had a session's time to do so.

        A spare member, beside others that own all partitions, is never given any.
        """
        return bool(self._next) or time.monotonic() > self._spare_s

    def _gain(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_leaving:  # a consumer that is being closed is still given partitions, and answers no question
            return
        uncommitted: list[int] = []
        for committed in consumer.committed(partitions, timeout=10):
            if committed.error is not None:  # taking it for "nothing committed" would forget the attempts
                raise KafkaException(committed.error)
            if committed.offset < 0:  # no place yet: a heartbeat would take -1001 for 1,001 jobs that wait
                uncommitted.append(committed.partition)
            else:
                self._next[committed.partition] = committed.offset
            recorded = METADATA.fullmatch(committed.metadata or "")
            if committed.offset >= 0 and recorded:
                self._suspects[committed.partition] = Suspect(committed.offset, int(recorded[2]), int(recorded[1]))
        self._resume(self._resumer.find_unfinished(consumer, uncommitted))

    def _resume(self, found: Mapping[int, Unfinished]) -> None:
        """Begin where something is open, and commit that: the consumer takes it from there, as its next owner does."""
        for partition, each in found.items():
            self._next[partition], self._found[partition] = each.begin, each
        looked_up = {partition: each for partition, each in found.items() if each.was_looked_up}
        if looked_up:
            self._commit({partition: Suspect(each.begin, each.begin, 0) for partition, each in looked_up.items()})

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for lost in partitions:
            self._next.pop(lost.partition, None)
            self._suspects.pop(lost.partition, None)
            self._found.pop(lost.partition, None)
        self._waiting = self._owned_of(self._waiting)
        self._held_back.lose(partitions)

    def take(self, most: int, timeout_s: float, *, join: bool = False) -> list[Taken]:
        """Up to `most` jobs; each alone as long as there are some that a dead owner had in hand.

        Partitions come and go within the poll, so only then is it known which jobs are to be alone. `join`: beside
        others, so that none is taken that is to be alone.

        Raises:
            MembershipLost: the cluster does not count on this member any more, or gives it no jobs that lie there, and
                only joining anew helps.
        """
        polled = take(self._consumer, max(1, most - len(self._waiting)), 0 if self._waiting else timeout_s)
        ready = self._waiting + self._held_back.readable(self._owned_of(polled))
        self._idle.check(self._consumer, len(self._next), is_served=bool(polled or ready) or self._held_back.holds)
        many = 0 if join and self._suspects else jobs_at_once(most, are_suspects=bool(self._suspects))
        self._waiting = ready[many:]
        return [self._taken(message) for message in ready[:many]]

    def _owned_of(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of owned partitions; those of partitions revoked meanwhile belong to the new owner."""
        return [message for message in messages if message.partition() in self._next]

    def _taken(self, message: Message) -> Taken:
        record = incoming(message, self._prefix)
        self._next[record.partition] = record.offset + 1
        suspect = self._suspects.get(record.partition)
        attempts = 0
        if suspect is not None and record.offset < suspect.until:
            attempts = attempts_before(suspect.attempts if suspect.offset == record.offset else 0)
        found = self._found.get(record.partition)
        return Taken(record, attempts + 1, found is not None and found.is_over(record.offset))

    def begin(self, batch: Sequence[Taken]) -> None:
        """Record what is in flight before generating; of several jobs none is to blame before it was met alone."""
        attempts = counted_attempts([taken.attempt for taken in batch])
        heads = {taken.record.partition: taken.record.offset for taken in reversed(batch)}
        self._commit({p: self._suspect(p, heads[p], end, attempts) for p, end in _ends(batch).items()})

    def absolve(self, batch: Sequence[Taken]) -> None:
        """Clear the jobs of blame while the worker waits: if it dies meanwhile, that counts against no job."""
        attempts = counted_attempts([taken.attempt - 1 for taken in batch])
        heads = {taken.record.partition: taken.record.offset for taken in reversed(batch)}
        self._commit({p: self._suspect(p, head, head, attempts) for p, head in heads.items()})

    def commit(self, batch: Sequence[Taken]) -> None:
        """Commit past these records, as everything that they caused is acknowledged."""
        rest = {p: self._suspect(p, end, end, 0) for p, end in _ends(batch).items()}
        self._suspects = {p: each for p, each in (self._suspects | rest).items() if each.until > each.offset}
        self._commit(rest)

    def _suspect(self, partition: int, offset: int, end: int, attempts: int) -> Suspect:
        """Return the jobs that the next owner takes one by one: up to `end`, or those a former owner had in flight."""
        known = self._suspects.get(partition)
        return Suspect(offset, max(end, known.until) if known else end, attempts)

    def _commit(self, suspects: Mapping[int, Suspect]) -> None:
        owned = {p: each for p, each in suspects.items() if p in self._next}  # others may have gone while some joined
        positions = [TopicPartition(self._topic, p, each.offset, each.metadata()) for p, each in owned.items()]
        if not positions:
            return
        try:
            self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:  # another owner has the partition: the work may be done twice
            metrics.FALLBACKS.labels("worker", "commit").inc()
            log.warning("commit refused: %s", error)

    def owned(self, run_ms: float) -> tuple[OwnedPartition, ...]:
        """Return the jobs of the owned partitions that were not taken yet; called from the heartbeat's thread.

        Nothing here asks the consumer: `assignment()` blocks for seconds while a group rebalances, and a query for
        ends on its connection waits behind its fetch, 100 ms a partition (both measured). Raises as `LogEnds.of`.
        """
        positions = dict(self._next)
        return tuple(
            OwnedPartition(
                partition=partition, end_offset=end, remaining_ms=round(max(0, end - positions[partition]) * run_ms)
            )
            for partition, end in self._ends.of(self._topic, positions).items()
        )

    def is_empty(self) -> bool:
        """Whether nothing lies in the owned partitions, as far as all their ends are known. Raises as `LogEnds.of`."""
        owned = self.owned(1000)  # a partition whose end is not known is left out
        return len(owned) == len(self._next) and all(each.remaining_ms == 0 for each in owned)

    def close(self) -> None:
        """Leave the group at once."""
        self._is_leaving = True
        self._consumer.close()


def _ends(batch: Sequence[Taken]) -> dict[int, int]:
    """partition -> the offset past its last record."""
    return {taken.record.partition: taken.record.offset + 1 for taken in batch}

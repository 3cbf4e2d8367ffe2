"""The consumer of the jobs that wait for idle workers, of all variants whose topics the group gives this process.

A job is committed when all that it has caused is written: who dies in between has it forwarded again, and the ledger
lets one outcome through. `progress.py` says what is committed of jobs that go out of order.
"""

import logging
from collections.abc import Callable, Collection, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from agents.router.waiting.progress import Committed, Progress
from agents.worker.resuming import Resumer
from schemas.record import Incoming
from schemas.topics import full_name, waiting_group, waiting_topic
from streams import metrics
from streams.codec.schema_wait import SchemaWait, WaitingMessages
from streams.kafka.consumers.consumer_factory import open_member
from streams.kafka.consumers.polling import incoming, take
from streams.kafka.groups.groups import member_config
from streams.kafka.groups.members import IdleMember
from streams.settings import Settings

log = logging.getLogger(__name__)

ROLE = "router"
ANSWER_S = 10
POLL_LIMIT_MS = 300_000

OnLost = Callable[[str, Collection[int]], None]
Place = tuple[str, int]  # topic without the prefix, partition


class WaitingSource:
    """One member of the group of forwarders. Used by one thread; the group's callbacks come within its calls."""

    def __init__(self, settings: Settings, variants: Sequence[str], on_lost: OnLost) -> None:
        """`on_lost`: called with a variant and the partitions of its topic that another member gets; what is written
        because of their jobs by then is to be reported to `went` before it returns."""
        self._prefix, self._on_lost, self._is_leaving = settings.kafka.prefix, on_lost, False
        topics = {variant: waiting_topic(variant) for variant in variants}
        self._variants = {topic.name: variant for variant, topic in topics.items()}
        self._resumers = {topic.name: Resumer(settings, topic) for topic in topics.values()}
        self._owned: dict[Place, Progress] = {}
        self.paused: set[str] = set()  # variants of which no more jobs are read
        group = waiting_group(self._prefix)
        own = {"max.poll.interval.ms": POLL_LIMIT_MS, "fetch.queue.backoff.ms": 10, "on_commit": _on_commit}
        self._consumer = open_member(member_config(settings, group), own)
        self._idle = IdleMember(settings, group)
        self.schemas = SchemaWait(ROLE)
        self._held_back = WaitingMessages(self._consumer, self._prefix, self.schemas)
        names = [full_name(self._prefix, topic.name) for topic in topics.values()]
        self._consumer.subscribe(names, on_assign=self._gain, on_revoke=self._lose, on_lost=self._lose)

    def variant_of(self, record: Incoming) -> str:
        """Return the variant whose topic a record lies on."""
        return self._variants[record.topic]

    def take(self, most: int, timeout_s: float) -> list[Incoming]:
        """Take up to `most` jobs that wait, in each partition's order.

        Raises:
            MembershipLost: the cluster does not count on this member any more, or gives it no jobs that lie there, and
                only joining anew helps.
        """
        polled = take(self._consumer, most, timeout_s)
        is_served = bool(polled or self.paused) or self._held_back.holds
        self._idle.check(self._consumer, len(self._owned), is_served=is_served)
        records = [incoming(message, self._prefix) for message in self._held_back.readable(polled)]
        return [record for record in records if self._takes(record)]

    def _takes(self, record: Incoming) -> bool:
        progress = self._owned.get((record.topic, record.partition))
        return progress is not None and progress.take(record.offset)

    def went(self, record: Incoming) -> None:
        """Note that all that a job has caused is written."""
        progress = self._owned.get((record.topic, record.partition))
        if progress is not None:
            progress.went(record.offset)

    def commit(self) -> None:
        """Commit what has gone since the last call, without waiting."""
        self._commit([place for place, progress in self._owned.items() if progress.is_news], asynchronous=True)

    def pause(self, variant: str, *, is_paused: bool) -> None:
        """Read no more jobs of a variant, or go on."""
        partitions = [self._position(place) for place in self._owned if self._variants[place[0]] == variant]
        (self._consumer.pause if is_paused else self._consumer.resume)(partitions)
        (self.paused.add if is_paused else self.paused.discard)(variant)

    def close(self) -> None:
        """Leave the group at once; what is owned is reported as lost before."""
        self._is_leaving = True
        self._consumer.close()

    def _gain(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_leaving:  # a consumer that is being closed is still given partitions, and answers no question
            return
        for found in consumer.committed(partitions, timeout=ANSWER_S):
            if found.error is not None:  # taking it for "nothing committed" would forward all anew
                raise KafkaException(found.error)
            place = found.topic.removeprefix(self._prefix + "."), found.partition
            if found.offset >= 0:
                self._owned[place] = Progress(Committed.of(found.offset, found.metadata))
                continue
            unfinished = self._resumers[place[0]].find_unfinished(consumer, [found.partition])[found.partition]
            begin = unfinished.begin
            self._owned[place] = Progress(Committed(begin, begin, ()), unfinished.ended)
            if unfinished.was_looked_up:  # the consumer takes it from there, as its next owner does
                self._commit([place], asynchronous=False)

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        lost: dict[str, list[int]] = {}
        for each in partitions:
            lost.setdefault(each.topic.removeprefix(self._prefix + "."), []).append(each.partition)
        for topic, numbers in lost.items():
            self._on_lost(self._variants[topic], numbers)
        places = [(topic, number) for topic, numbers in lost.items() for number in numbers]
        self._commit([p for p in places if p in self._owned and self._owned[p].is_news], asynchronous=False)
        for place in places:
            self._owned.pop(place, None)
        self._held_back.lose(partitions)

    def _commit(self, places: Sequence[Place], *, asynchronous: bool) -> None:
        if not places:
            return
        positions = [self._position(place, self._owned[place].committed()) for place in places]
        try:
            self._consumer.commit(offsets=positions, asynchronous=asynchronous)
        except KafkaException as error:
            _on_commit(error.args[0], positions)

    def _position(self, place: Place, committed: Committed | None = None) -> TopicPartition:
        topic, partition = full_name(self._prefix, place[0]), place[1]
        if committed is None:
            return TopicPartition(topic, partition)
        return TopicPartition(topic, partition, committed.offset, committed.metadata)


def _on_commit(error: KafkaError | None, positions: Sequence[TopicPartition]) -> None:
    """A refused commit: another owner has the partition, and forwards again what this one has since its last commit."""
    if error is not None and positions:
        metrics.FALLBACKS.labels(ROLE, "commit").inc()
        log.warning("commit of forwarded jobs refused: %s", error.str())

"""Asks for a consumer group's offsets on a topic, without joining it, and for the ends of logs.

A consumer that is never subscribed asks, not the admin's client: the admin's ends its process (a segmentation fault,
librdkafka 2.4 to 2.16, issue 5040) where the group's coordinator moves between its question and the answer. Where a
partition's leader is gone, the admin's uses a whole core until the end of the log is due, and where it comes back, it
answers with an error for ever (FENCED_LEADER_EPOCH; both measured with librdkafka 2.16.0): with a broker lost, three
workers' heartbeats had kept two cores busy.
"""

import contextlib
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.kafka.clients import ANSWER_LIMIT_S, client_config
from streams.kafka.consumers.consumer_factory import open_member
from streams.kafka.errors import UNKNOWN_YET, Client, partitions_of, patiently
from streams.settings import Settings

HAS_MEMBERS = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.STALE_MEMBER_EPOCH}
ENDS_ANSWER_S = 2.0  # for the brokers to answer, for all partitions together
MIN_END_S = 0.2  # for one partition, also when the others' leaders have used that up


class Unread(NamedTuple):
    """The offsets of a partition that a group has not committed, from `start` to below `end`."""

    start: int
    end: int


class Asked(Client, Protocol):
    """The part of a Consumer with the group's id that answers about offsets."""

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]: ...
    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]: ...
    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]: ...
    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> object: ...


def unread(settings: Settings, topic: str, group: str) -> dict[int, Unread]:
    """Return partition -> its uncommitted offsets, without empty ones; all offsets for a group that does not exist.

    Raises KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    with asking(settings, group) as client:
        partitions = _partitions(client, topic)
        begins = committed(client, partitions, ANSWER_LIMIT_S)  # before the ends, which only grow
        ends = ends_of(client, partitions)
    spans = {partition: Unread(max(begins[partition], first), end) for partition, (first, end) in ends.items()}
    return {partition: span for partition, span in spans.items() if span.start < span.end}


def positions(settings: Settings, topic: str, group: str) -> dict[int, int]:
    """partition -> the offset that a group goes on from, 0 where it has committed none.

    Raises KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    with asking(settings, group) as client:
        return committed(client, _partitions(client, topic), ANSWER_LIMIT_S)


def deleted(settings: Settings, topic: str, group: str) -> dict[int, Unread]:
    """Return partition -> the offsets that left the log before the group had committed them; an upper bound of the
    records, as offsets include markers of transactions.

    A partition without a committed offset is left out: what was read of it is unknown.

    Raises KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    with asking(settings, group) as client:
        begun = _begun(client, _partitions(client, topic))
        firsts = {partition: first for partition, (first, _) in ends_of(client, begun).items()}
        late = [each for each in begun if each.offset < firsts[each.partition]]
        # once more: a reader that went on meanwhile has missed nothing
        return {
            each.partition: Unread(each.offset, firsts[each.partition])
            for each in _begun(client, [TopicPartition(topic, each.partition) for each in late])
            if each.offset < firsts[each.partition]
        }


def _begun(client: Asked, partitions: list[TopicPartition]) -> list[TopicPartition]:
    """Return the partitions of which the client's group has committed something, with that offset."""
    return [each for each in _committed(client, partitions, ANSWER_LIMIT_S) if each.offset >= 0] if partitions else []


def refresh(settings: Settings, topic: str, group: str) -> int:
    """Commit again what a group has committed, so that Kafka goes on keeping it: it drops the offsets of a group a
    week after its last member left. How many partitions; 0 for one that has members, which are left alone.

    Raises KafkaException: the cluster does not answer in time, or there is no such topic.
    """
    with asking(settings, group) as client:
        found = [each for each in _committed(client, _partitions(client, topic), ANSWER_LIMIT_S) if each.offset >= 0]
        return len(found) if found and commit_alone(client, found) else 0


def commit_alone(client: Asked, offsets: list[TopicPartition]) -> bool:
    """Commit for a group without members; whether it has none. Raises KafkaException: the cluster does not answer."""
    try:
        client.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() in HAS_MEMBERS:
            return False
        raise
    return True


def uncommitted(client: Asked, topic: str) -> list[int]:
    """The partitions of which the client's group has committed nothing. Raises KafkaException."""
    found = _committed(client, _partitions(client, topic), ANSWER_LIMIT_S)
    return [each.partition for each in found if each.offset < 0]


@contextlib.contextmanager
def asking(settings: Settings, group: str) -> Iterator[Asked]:
    """A client with the id of a group that it does not join."""
    client = _client(settings, group)
    try:
        yield client
    finally:
        client.close()


def _client(settings: Settings, group: str) -> Consumer:
    """Open a client that is given offsets and ends as they are, also while a transaction that moves them is open."""
    return open_member({**client_config(settings), "group.id": group}, {"isolation.level": "read_uncommitted"})


def _partitions(client: Asked, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in partitions_of(client, topic, ANSWER_LIMIT_S)]


def ends_of(client: Asked, partitions: list[TopicPartition]) -> dict[int, tuple[int, int]]:
    """partition -> first and last offset; a topic made a moment ago may have no leader yet, or be unknown there."""

    def ask(partition: TopicPartition) -> tuple[int, int]:
        return patiently(
            lambda: client.get_watermark_offsets(partition, timeout=ANSWER_LIMIT_S),
            ANSWER_LIMIT_S,
            UNKNOWN_YET,
        )

    return {partition.partition: ask(partition) for partition in partitions}


def committed(client: Asked, partitions: list[TopicPartition], limit_s: float) -> dict[int, int]:
    """partition -> the offset that the client's group goes on from, 0 where it has committed none; all of one topic.

    Raises KafkaException: the cluster does not answer in time, or refuses.
    """

    return {each.partition: max(0, each.offset) for each in _committed(client, partitions, limit_s)}  # < 0: none


def _committed(client: Asked, partitions: list[TopicPartition], limit_s: float) -> list[TopicPartition]:
    def read_committed() -> list[TopicPartition]:
        found = client.committed(partitions, timeout=limit_s)
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        return found

    return patiently(read_committed, limit_s)


class LogEnds:
    """Asks for the ends of logs by its own client, as a consumer's query would wait behind its fetch. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        # the group is never used: no commits, no membership
        self._client: Asked = _client(settings, f"{settings.kafka.prefix}.log-ends")

    def of(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """partition -> the end of its log; one whose leader does not answer now is left out.

        Raises KafkaException: none of their leaders answers.
        """
        ends: dict[int, int] = {}
        failure: KafkaException | None = None
        deadline = time.monotonic() + ENDS_ANSWER_S
        for left, partition in zip(range(len(partitions), 0, -1), partitions, strict=True):
            limit_s = max(MIN_END_S, (deadline - time.monotonic()) / left)
            try:
                _, end = self._client.get_watermark_offsets(TopicPartition(topic, partition), timeout=limit_s)
            except KafkaException as error:
                failure = error
                continue
            if end >= 0:  # a broker that has just begun answers -1
                ends[partition] = end
        if failure is not None and not ends:
            raise failure
        return ends

"""Finds where a group without commits begins on a topic of jobs, as jobs there may have ended long ago.

Kafka drops the offsets of a group a week after its last member left, and keeps jobs as long or longer. No offset is not
offset 0: the results say which jobs are open. Only ids are compared, as 16 bytes of a hash each: a million jobs
take 110 MB for a moment (measured).
"""

import hashlib
import logging
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException, TopicPartition

from planner.serving.resuming import REMEMBERED_MS, Lying, Unfinished, is_forgotten, unfinished
from schemas import topics
from schemas.errors import PochadeError
from schemas.record import Incoming
from schemas.topics import full_name
from streams.clock import now_ms
from streams.codec.request_ids import request_id_of
from streams.kafka.consumers import offsets, snapshot
from streams.kafka.errors import UNKNOWN_YET, patiently
from streams.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

ANSWER_S = 10.0
READ_S = 240.0  # for the jobs, and again for the results: within a turn of a worker that takes the shortest jobs
DIGEST = 16  # bytes of a hash that stand for an id
APART_MS = 60_000  # that the clocks of two brokers may be
MANY = 100_000  # results at a time


STREAMS = {each.name: each for each in topics.TABLE}


def keyed_by_request(record: Incoming) -> bytes | None:
    """The request's id, as all but prompts have it."""
    return record.key


def named_in_prompt(record: Incoming) -> bytes:
    """The request's id, as the classifier takes it from a prompt."""
    return request_id_of(record).encode(errors="replace")


def settle(settings: Settings, source: str, group: str) -> None:
    """Have a group without members begin where something is open of a topic (name without the prefix), where it has
    committed nothing of old records: a role that was away for a week does not do all again.

    Raises:
        PochadeError: the cluster does not answer, or the topic could not be read in time.
    """
    id_of = named_in_prompt if source in (topics.PROMPTS, topics.PROMPTS_BATCH) else keyed_by_request
    try:
        _settle(settings, Resumer(settings, STREAMS[source], id_of), full_name(settings.kafka.prefix, source), group)
    except KafkaException as error:
        raise PochadeError(f"cannot see how far {group} has come on {source}: {error.args[0].str()}") from error


def _settle(settings: Settings, resumer: "Resumer", name: str, group: str) -> None:
    with offsets.asking(settings, group) as client:
        found = resumer.find_unfinished(
            client, patiently(lambda: offsets.uncommitted(client, name), ANSWER_S, UNKNOWN_YET)
        )
        begins = [TopicPartition(name, p, each.begin) for p, each in found.items() if each.was_looked_up]
        if begins:
            offsets.commit_alone(client, begins)


class Resumer:
    """Looks up what is open on partitions of one topic."""

    def __init__(
        self,
        settings: Settings,
        topic: topics.Topic,
        id_of: Callable[[Incoming], bytes | None] = keyed_by_request,
    ) -> None:
        """`id_of`: the id of a record's request, as it is the key of its result."""
        self._settings = settings
        self._topic = topic
        self._id_of = id_of
        self._kept_ms = float(topic.config["retention.ms"])

    def find_unfinished(self, client: offsets.Asked, uncommitted: Collection[int]) -> dict[int, Unfinished]:
        """Find the open jobs of partitions of which nothing is committed.

        Raises:
            PochadeError: the topics could not be read in time.
            KafkaException: the cluster does not answer.
        """
        name = full_name(self._settings.kafka.prefix, self._topic.name)
        spans = offsets.ends_of(client, [TopicPartition(name, p) for p in uncommitted])
        found = {p: Unfinished(first, was_looked_up=False) for p, (first, _) in spans.items()}
        filled = [TopicPartition(name, p, now_ms() - REMEMBERED_MS) for p, (first, end) in spans.items() if first < end]
        forgotten: dict[int, int] = {}
        for young in client.offsets_for_times(filled, timeout=ANSWER_S) if filled else ():
            if young.error is not None:
                raise KafkaException(young.error)
            first, end = spans[young.partition]
            if is_forgotten(first, young.offset if young.offset >= 0 else end, end):
                forgotten[young.partition] = end
        return found | (self._open_of(forgotten) if forgotten else {})

    def _open_of(self, ends: dict[int, int]) -> dict[int, Unfinished]:
        """`ends`: of the partitions by now; what comes later is open anyway."""
        jobs = _Jobs(ends.keys(), self._id_of)
        snapshot.past(self._settings, [self._topic.name], keep=jobs.add, timeout_s=READ_S)
        if jobs.oldest_ms is not None:
            ended, since_ms = _Ended(jobs), jobs.oldest_ms - APART_MS
            snapshot.past(self._settings, [topics.RESULTS], since_ms=since_ms, keep=ended.add, timeout_s=READ_S)
            ended.finish()
        found = {p: unfinished(jobs.lying(p), end, jobs.newest_ms, self._kept_ms) for p, end in ends.items()}
        for partition, each in found.items():
            log.warning(
                "nothing is committed of %s, partition %d, which ends at %d: what is open begins at %d",
                self._topic.name, partition, ends[partition], each.begin,
            )  # fmt: skip
        return found


class _Jobs:
    """The jobs on some partitions."""

    def __init__(self, partitions: Collection[int], id_of: Callable[[Incoming], bytes | None]) -> None:
        self._partitions = partitions
        self._id_of = id_of
        self.oldest_ms: int | None = None
        self.newest_ms = 0  # of jobs and results: the brokers' time, as a clock of ours may be days off
        self.digests = bytearray()
        self.ended: NDArray[np.bool_] | None = None  # by job, in the order of the digests
        self._places: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))  # partition -> number, offset, ms

    def add(self, record: Incoming) -> bool:
        if record.partition in self._partitions:
            self._places[record.partition].extend((len(self.digests) // DIGEST, record.offset, record.timestamp_ms))
            self.digests += _digest(self._id_of(record))
            self.oldest_ms = min(record.timestamp_ms, self.oldest_ms or record.timestamp_ms)
            self.newest_ms = max(record.timestamp_ms, self.newest_ms)
        return False

    def lying(self, partition: int) -> Iterator[Lying]:
        places = self._places[partition]
        for at in range(0, len(places), 3):
            number, offset, written_ms = places[at : at + 3]
            yield Lying(offset, written_ms, self.ended is not None and bool(self.ended[number]))


class _Ended:
    """Marks the jobs whose request has a result."""

    def __init__(self, jobs: _Jobs) -> None:
        import numpy as np

        self._jobs = jobs
        self._ids, self._of_job = np.unique(np.frombuffer(jobs.digests, f"S{DIGEST}"), return_inverse=True)
        self._has_result = np.zeros(len(self._ids), bool)
        self._waiting = bytearray()

    def add(self, record: Incoming) -> bool:
        self._jobs.newest_ms = max(record.timestamp_ms, self._jobs.newest_ms)
        self._waiting += _digest(record.key)
        if len(self._waiting) >= MANY * DIGEST:
            self._mark()
        return False

    def _mark(self) -> None:
        import numpy as np

        ended = np.frombuffer(bytes(self._waiting), f"S{DIGEST}")
        at = np.searchsorted(self._ids, ended)  # np.isin would sort all jobs again each time
        at[at == len(self._ids)] = 0
        self._has_result[at[self._ids[at] == ended]] = True
        self._waiting.clear()

    def finish(self) -> None:
        self._mark()
        self._jobs.ended = self._has_result[self._of_job]


def _digest(key: bytes | None) -> bytes:
    return hashlib.blake2b(key or b"", digest_size=DIGEST).digest()

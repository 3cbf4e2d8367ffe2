"""Where a group begins that has committed nothing on a topic of jobs: what lies there may have ended long ago.

Kafka drops the offsets of a group a week after its last member left, and keeps jobs as long or longer. No offset is not
offset 0: which jobs are open is told by the results. Only ids are compared, as 16 bytes of a hash each, so that six
million jobs take 250 MB for a moment.
"""

import hashlib
import logging
from array import array
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from planner.stranding import Lying, Unfinished, unfinished
from schemas import topics
from schemas.record import Incoming
from streams import snapshot
from streams.reading import now_ms
from streams.settings import Settings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

log = logging.getLogger(__name__)

READ_S = 240.0  # for the jobs, and again for the results: within a turn of a worker that takes the shortest jobs
DIGEST = 16  # bytes of a hash that stand for an id
MANY = 100_000  # results at a time


class Resumer:
    """Looks up what is open on partitions of one topic, whose records have the request's id as key."""

    def __init__(self, settings: Settings, topic: topics.Topic) -> None:
        self._settings, self._topic = settings, topic
        self._kept_ms = float(topic.config["retention.ms"])

    def open_jobs(self, ends: dict[int, int]) -> dict[int, Unfinished]:
        """By partition what is still to be done of it. `ends`: its end by now; what comes later is open anyway.

        Raises:
            PochadeError: the topics could not be read in time.
        """
        jobs = _Jobs(ends.keys())
        snapshot.past(self._settings, [self._topic.name], keep=jobs.add, timeout_s=READ_S)
        if jobs.oldest_ms is not None:
            ended = _Ended(jobs)
            snapshot.past(self._settings, [topics.RESULTS], since_ms=jobs.oldest_ms, keep=ended.add, timeout_s=READ_S)
            ended.finish()
        found = {p: unfinished(jobs.lying(p), end, now_ms(), self._kept_ms) for p, end in ends.items()}
        for partition, each in found.items():
            log.warning(
                "nothing is committed of %s, partition %d, which ends at %d: what is open begins at %d",
                self._topic.name, partition, ends[partition], each.begin,
            )  # fmt: skip
        return found


class _Jobs:
    """What lies on some partitions."""

    def __init__(self, partitions: Collection[int]) -> None:
        self._partitions = partitions
        self.oldest_ms: int | None = None
        self.digests = bytearray()
        self.ended: NDArray[np.bool_] | None = None  # by job, in the order of the digests
        self._places: defaultdict[int, array[int]] = defaultdict(lambda: array("q"))  # partition -> number, offset, ms

    def add(self, record: Incoming) -> bool:
        if record.partition in self._partitions:
            self._places[record.partition].extend((len(self.digests) // DIGEST, record.offset, record.timestamp_ms))
            self.digests += _digest(record.key)
            self.oldest_ms = min(record.timestamp_ms, self.oldest_ms or record.timestamp_ms)
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
        self._waiting += _digest(record.key)
        if len(self._waiting) >= MANY * DIGEST:
            self._mark()
        return False

    def _mark(self) -> None:
        import numpy as np

        told = np.frombuffer(bytes(self._waiting), f"S{DIGEST}")
        self._has_result |= np.isin(self._ids, told)
        self._waiting.clear()

    def finish(self) -> None:
        self._mark()
        self._jobs.ended = self._has_result[self._of_job]


def _digest(key: bytes | None) -> bytes:
    return hashlib.blake2b(key or b"", digest_size=DIGEST).digest()

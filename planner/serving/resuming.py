"""Finds the open jobs of a partition whose consumer group has no committed offset."""

from collections.abc import Iterable
from typing import NamedTuple

REMEMBERED_MS = 60_000  # of ends; every process knows those of the last minute, at any rate of requests


class Lying(NamedTuple):
    """A job as it lies on a topic."""

    offset: int
    written_ms: int
    has_result: bool  # of its request


class Unfinished(NamedTuple):
    """The open jobs of a partition: all from the offset `begin` on, except `ended`."""

    begin: int
    ended: frozenset[int] = frozenset()
    was_looked_up: bool = True  # else all is young, and `begin` is the partition's first offset

    def is_over(self, offset: int) -> bool:
        """Whether the job at this offset is done or its request has ended."""
        return offset < self.begin or offset in self.ended


def is_forgotten(first: int, young: int, end: int) -> bool:
    """Whether a partition from which nothing is committed may hold jobs that ended long ago.

    Its group may never have been, or Kafka has dropped its offsets, as it does a week after the last member left.
    `first`: the offset of the oldest job; `young`: that of the first one written within REMEMBERED_MS; `end`: of none.
    """
    return first < min(young, end)


def unfinished(jobs: Iterable[Lying], end: int, now_ms: int, kept_ms: float) -> Unfinished:
    """Return the open jobs of a partition whose offsets were forgotten, by the results, which outlive the jobs.

    `jobs`: by offset; one older than `kept_ms`, the topic's retention, waits only to be deleted: its result may have
    gone before it. A job that no worker ever took is open, however old it is within that.
    """
    begin, ended = end, list[int]()
    for job in jobs:
        if job.has_result or job.written_ms < now_ms - kept_ms:
            ended.append(job.offset)
        else:
            begin = min(begin, job.offset)
    return Unfinished(begin, frozenset(offset for offset in ended if offset > begin))

"""How far the jobs of one partition have gone, as they do not go in the order in which they lie there.

Committed is the offset of the first job that waits, with those behind it that wait too as metadata, up to the last one
that has gone. Who takes the partition over forwards those alone, and all that came later.

    jobs 5 to 9, of which 6, 7 and 9 have gone     offset 5, metadata "until=10 open=0,3": 5, and 3 behind it 8
    all have gone                                  offset 10, no metadata
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

METADATA: Final = re.compile(r"until=(\d+) open=([\d,]*)")
MAX_METADATA: Final = 3000  # characters; brokers take 4,096 bytes by default (offset.metadata.max.bytes)


class Committed(NamedTuple):
    """What is committed of a partition: jobs below `offset` have gone, from `until` on none has."""

    offset: int
    until: int
    open: tuple[int, ...]  # offsets between them that have not gone

    @classmethod
    def of(cls, offset: int, metadata: str | None) -> "Committed":
        """Return what an offset and its metadata say; metadata of another form says nothing."""
        found = METADATA.fullmatch(metadata or "")
        if not found or int(found[1]) <= offset:
            return cls(offset, offset, ())
        steps = [int(step) for step in found[2].split(",") if step]
        return cls(offset, int(found[1]), tuple(_sums(steps, offset)))

    @property
    def metadata(self) -> str:
        """What to commit beside the offset; empty where no job behind it has gone."""
        steps = [after - before for before, after in zip((self.offset, *self.open), self.open, strict=False)]
        return f"until={self.until} open={','.join(map(str, steps))}" if self.until > self.offset else ""

    def has_gone(self, offset: int) -> bool:
        """Whether the job at an offset has gone."""
        return offset < self.offset or (offset < self.until and offset not in self.open)

    def waiting(self, end: int) -> int:
        """Return the number of jobs that wait, where the partition ends at `end`."""
        return max(0, end - self.until) + len(self.open)


class Progress:
    """The progress on a partition that this process owns. Not thread-safe."""

    def __init__(self, committed: Committed, ended: Iterable[int] = ()) -> None:
        """`ended`: offsets of jobs behind it whose requests have ended."""
        self._begun, self._ended = committed, frozenset(ended)
        self._open: dict[int, None] = {}  # taken, and waiting; in order
        self._next = committed.offset  # to be taken
        self._last_gone = committed.until - 1
        self.is_news = False  # something has gone since `committed`

    def take(self, offset: int) -> bool:
        """Take the next job; whether it is to be forwarded: it has not gone, nor ended."""
        if offset < self._next:
            return False
        self._next = offset + 1
        if self._begun.has_gone(offset):
            return False
        if offset in self._ended:
            self.went(offset)
            return False
        self._open[offset] = None
        return True

    def went(self, offset: int) -> None:
        """Note that all that a job has caused is written."""
        self._open.pop(offset, None)
        self._last_gone = max(self._last_gone, offset)
        self.is_news = True

    def committed(self) -> Committed:
        """Return what is to be committed now.

        Of more open jobs than metadata takes, those that have gone behind the first ones are left out: the next
        forwarder forwards them again.
        """
        self.is_news = False
        first = next(iter(self._open), self._next)
        if first > self._last_gone:
            return Committed(first, first, ())
        passed, size, until = list[int](), len(f"until={self._next} open="), self._last_gone + 1
        known = [*self._open, *(offset for offset in self._begun.open if offset >= self._next)]
        before = first
        for offset in known:
            if offset >= until:
                break
            size += len(f"{offset - before},")
            if size > MAX_METADATA:
                until = offset
                break
            passed.append(offset)
            before = offset
        return Committed(first, until, tuple(passed))


def _sums(steps: Iterable[int], total: int) -> Iterator[int]:
    for step in steps:
        total += step
        yield total

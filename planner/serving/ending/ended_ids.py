"""The ended request ids, in 12 to 16 bytes each: 69 million of them (100 a second for 8 days) in 0.83 GB.

An id is kept as its 96-bit BLAKE2b digest, so an answer may be wrong: an id that never ended is taken for an ended one
with probability n / 2**96, which for n = 69 million is 9e-22 an id, and 6e-14 for all ids of 8 days together. To have
another's request dropped an attacker must find a second preimage of its digest: 2**96 tries.

    newest ids -> a set a day -- `seal` at 65,536 ids --> a sorted segment -- merged by size, like a log-structured tree
    -> segments of up to 2**20 ids over at most a day; sets and segments are dropped whole when their newest id is older
    than the window
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from schemas.ids import Digests, digest_of
from schemas.topics import DAY_MS, SKEW_MS

if TYPE_CHECKING:  # numpy, which a ledger of fewer than 65,536 ended ids a partition does without
    from planner.serving.ending.ended_segments import Segment

SEALED = 65_536  # ids of a segment when it is made; packed they are 786,432 bytes: one record
MERGED = 2**20  # ids of the largest segment: to merge two takes some tens of milliseconds
MERGED_AT = 16  # segments: those of 65,536 ids are merged once
SPAN_MS = DAY_MS  # that a set or a segment may cover: an id is remembered at most this much too long


class _Newest:
    """Digests of requests that ended within SPAN_MS."""

    def __init__(self, oldest_ms: int) -> None:
        self.digests, self.oldest_ms, self.newest_ms = Digests(), oldest_ms, oldest_ms


class EndedIds:
    """The ids that have ended within a window, of one partition. Not thread-safe."""

    def __init__(self, sealed: int = SEALED) -> None:
        """`sealed`: ids of a segment when it is made."""
        self._sealed = sealed
        self._newest: list[_Newest] = []  # the oldest first
        self._segments: list[Segment] = []  # the oldest first
        self._since_ms = 0

    def __len__(self) -> int:
        return self._unsealed() + sum(map(len, self._segments))

    @property
    def is_full(self) -> bool:
        """Whether the newest are enough for a segment."""
        return self._unsealed() >= self._sealed

    def _unsealed(self) -> int:
        return sum(len(each.digests) for each in self._newest)

    def add(self, digests: Iterable[bytes], at_ms: int) -> None:
        """Add the digests of ended requests."""
        if not self._newest or at_ms - self._newest[-1].oldest_ms > SPAN_MS:
            self._newest.append(_Newest(at_ms))
        newest = self._newest[-1]
        newest.newest_ms = max(newest.newest_ms, at_ms)
        for digest in digests:
            newest.digests.add(digest)

    def add_segment(self, segment: "Segment") -> None:
        """Add a segment of ended requests; older segments come first."""
        if len(segment):
            self._segments.append(segment)
            self._merge()

    def seal(self) -> "Segment":
        """Make a segment of the newest; the segment."""
        from planner.serving.ending.ended_segments import segment_of

        packed = b"".join(each.digests.packed() for each in self._newest)
        oldest_ms = min((each.oldest_ms for each in self._newest), default=0)
        segment = segment_of(packed, oldest_ms, max((each.newest_ms for each in self._newest), default=0))
        self._newest = []
        self.add_segment(segment)
        return segment

    def among(self, ids: Iterable[str]) -> set[str]:
        """Return the ids among these whose requests have ended."""
        digests = {digest_of(each.encode(errors="replace")): each for each in ids}
        return {digests[digest] for digest in self.known(list(digests))}

    def since_ms(self) -> int:
        """Return the time before which requests may have ended and be forgotten (epoch ms); 0: none is forgotten."""
        return self._since_ms

    def known(self, digests: Sequence[bytes]) -> set[bytes]:
        """Return the digests among these whose requests have ended."""
        known = {digest for digest in digests if any(digest in each.digests for each in self._newest)}
        if self._segments and len(known) < len(digests):
            from planner.serving.ending.ended_segments import among

            known.update(among(self._segments, digests))
        return known

    def forget(self, before_ms: int) -> None:
        """Drop requests that ended before this time; a set or a segment is dropped only as a whole."""
        self._since_ms = before_ms + SKEW_MS
        if any(each.newest_ms < before_ms for each in self._newest):
            self._newest = [each for each in self._newest if each.newest_ms >= before_ms]
        if any(segment.newest_ms < before_ms for segment in self._segments):
            self._segments = [segment for segment in self._segments if segment.newest_ms >= before_ms]

    def _merge(self) -> None:
        """The last few once they are enough, so that each id is moved only twice or thrice."""
        ids, first = 0, len(self._segments)
        oldest_ms, newest_ms = self._segments[-1].oldest_ms, self._segments[-1].newest_ms
        while first:
            before = self._segments[first - 1]
            oldest_ms, newest_ms = min(oldest_ms, before.oldest_ms), max(newest_ms, before.newest_ms)
            ids += len(before)
            if ids > MERGED or newest_ms - oldest_ms > SPAN_MS:
                break
            first -= 1
        if len(self._segments) - first >= MERGED_AT:
            from planner.serving.ending.ended_segments import merged

            self._segments[first:] = [merged(self._segments[first:])]

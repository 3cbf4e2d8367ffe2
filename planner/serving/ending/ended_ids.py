"""Which request ids have ended, in 12 bytes each: 69 million of them (100 a second for 8 days) in 0.83 GB.

An id is kept as its 96-bit BLAKE2b digest, so an answer may be wrong: an id that never ended is taken for an ended one
with probability n / 2**96, which for n = 69 million is 9e-22 an id, and 6e-14 for all ids of 8 days together. Whoever
wants a foreign request dropped must find a second preimage of its digest: 2**96 tries.

    newest ids -> a dict -- `seal` at 65,536 ids --> a sorted segment -- merged by size, like a log-structured tree -->
    segments of up to 2**20 ids over at most a day, each dropped whole when its newest id is older than the window
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIGEST_BYTES = 12
SEALED = 65_536  # ids of a segment when it is made; packed they are 786,432 bytes: one record
MERGED = 2**20  # ids of the largest segment: to merge two takes some tens of milliseconds
MERGED_AT = 16  # segments: those of 65,536 ids are merged once
SPAN_MS = 24 * 60 * 60 * 1000  # that a segment may cover: an id is remembered at most this much too long
PACKED = np.dtype([("high", ">u8"), ("low", ">u4")])


def digest_of(request_id: bytes) -> bytes:
    """96 bits of an id."""
    return hashlib.blake2b(request_id, digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Segment:
    """Digests in their order, none twice; times are of the results that ended them, epoch ms of the broker."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint32]
    oldest_ms: int
    newest_ms: int

    def __len__(self) -> int:
        return len(self.high)

    def has(self, high: NDArray[np.uint64], low: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Which of these digests are here."""
        at = np.searchsorted(self.high, high)
        found = at < len(self.high)
        at[~found] = 0
        found &= self.high[at] == high
        is_here: NDArray[np.bool_] = found & (self.low[at] == low)
        for each in np.flatnonzero(found & ~is_here):  # two digests with equal first 64 bits: 1 in 8,000 windows
            end = int(np.searchsorted(self.high, high[each], side="right"))
            is_here[each] = bool((self.low[at[each] : end] == low[each]).any())
        return is_here

    def packed(self) -> bytes:
        """12 bytes a digest, in their order."""
        both = np.empty(len(self), PACKED)
        both["high"], both["low"] = self.high, self.low
        return both.tobytes()


def segment_of(packed: bytes, oldest_ms: int, newest_ms: int) -> Segment:
    """The segment of packed digests, in any order.

    Raises:
        ValueError: a part of a digest is left over.
    """
    both = np.frombuffer(packed, PACKED)
    return _sorted(both["high"].astype(np.uint64), both["low"].astype(np.uint32), oldest_ms, newest_ms)


def _sorted(high: NDArray[np.uint64], low: NDArray[np.uint32], oldest_ms: int, newest_ms: int) -> Segment:
    order = np.argsort(high, kind="stable")  # sorted runs, as two segments are, are merged in one pass
    high, low = high[order], low[order]
    if (high[1:] == high[:-1]).any():  # digests twice, or equal in their first 64 bits
        order = np.lexsort((low, high))
        high, low = high[order], low[order]
        is_first = np.concatenate(([True], (high[1:] != high[:-1]) | (low[1:] != low[:-1])))
        high, low = high[is_first], low[is_first]
    return Segment(high, low, oldest_ms, newest_ms)


class EndedIds:
    """The ids that have ended within a window, of one partition. Not thread-safe."""

    def __init__(self, sealed: int = SEALED) -> None:
        """`sealed`: ids of a segment when it is made."""
        self._sealed = sealed
        self._newest: dict[bytes, int] = {}  # digest -> when it ended, in the order in which they came
        self._segments: list[Segment] = []  # the oldest first

    def __len__(self) -> int:
        return len(self._newest) + sum(map(len, self._segments))

    @property
    def is_full(self) -> bool:
        """Whether the newest are enough for a segment."""
        return len(self._newest) >= self._sealed

    def add(self, digests: Iterable[bytes], at_ms: int) -> None:
        """Add the digests of ended requests."""
        self._newest.update(dict.fromkeys(digests, at_ms))

    def add_segment(self, segment: Segment) -> None:
        """Add a segment of ended requests; older segments come first."""
        if len(segment):
            self._segments.append(segment)
            self._merge()

    def seal(self) -> Segment:
        """Make a segment of the newest; the segment."""
        times = self._newest.values()
        segment = segment_of(b"".join(self._newest), min(times, default=0), max(times, default=0))
        self._newest = {}
        self.add_segment(segment)
        return segment

    def known(self, digests: Sequence[bytes]) -> set[bytes]:
        """Return the digests among these whose requests have ended."""
        known = {digest for digest in digests if digest in self._newest}
        if self._segments and len(known) < len(digests):
            digests = sorted(digests)  # neighbours are found in the same pages: thrice as fast
            both = np.frombuffer(b"".join(digests), PACKED)
            high, low = both["high"].astype(np.uint64), both["low"].astype(np.uint32)
            is_known = np.zeros(len(digests), np.bool_)
            for segment in self._segments:
                is_known |= segment.has(high, low)
            known.update(digests[at] for at in np.flatnonzero(is_known))
        return known

    def forget(self, before_ms: int) -> None:
        """Drop requests that ended before this time; a segment is dropped only as a whole."""
        while self._newest and next(iter(self._newest.values())) < before_ms:
            del self._newest[next(iter(self._newest))]
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
            self._segments[first:] = [_merged(self._segments[first:])]


def _merged(segments: Sequence[Segment]) -> Segment:
    return _sorted(
        np.concatenate([segment.high for segment in segments]),
        np.concatenate([segment.low for segment in segments]),
        min(segment.oldest_ms for segment in segments),
        max(segment.newest_ms for segment in segments),
    )

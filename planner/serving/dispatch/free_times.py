"""When each worker of a variant is free, ordered so that dispatch looks at none but those that it chooses from.

    at_ms      place -> when the worker there has done all that it has
    idle       places that are free at the moment last asked about, in order
    busy       a heap of (at_ms, place) of all others; an entry whose time the worker no longer has counts for nothing

A change or a question costs O(log n) comparisons, beside moving pointers in the list of the idle. Time may jump back,
which costs O(n) once.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush

from schemas.ids import draw

SALT = "dispatch"
MIN_STALE = 64  # entries of the heap beyond twice the workers, before it is built anew


def any_of(places: Sequence[int], request_id: str) -> int | None:
    """Draw one place by the request's own random number: ties spread, and a repeated decision is equal."""
    if len(places) <= 1:
        return places[0] if places else None
    return places[int(draw(request_id, SALT) * len(places))]


class FreeTimes:
    """The times at which workers are free, by place, on one clock in ms. Not thread-safe: one owner."""

    __slots__ = ("_at_ms", "_busy", "_idle", "_is_idle", "_now_ms")

    def __init__(self, at_ms: Iterable[float] = ()) -> None:
        self._at_ms = list(at_ms)
        self._now_ms = -math.inf
        self._rebuild()

    def __len__(self) -> int:
        return len(self._at_ms)

    def __iter__(self) -> Iterator[float]:
        return iter(self._at_ms)

    def __getitem__(self, place: int) -> float:
        return self._at_ms[place]

    def set(self, place: int, at_ms: float) -> None:
        """Change when the worker at a place is free."""
        if at_ms == self._at_ms[place]:
            return
        self._at_ms[place] = at_ms
        if at_ms <= self._now_ms:
            if not self._is_idle[place]:
                self._is_idle[place] = True
                insort(self._idle, place)
            return
        if self._is_idle[place]:
            self._is_idle[place] = False
            del self._idle[bisect_left(self._idle, place)]
        heappush(self._busy, (at_ms, place))
        if len(self._busy) > 2 * len(self._at_ms) + MIN_STALE:
            self._rebuild()

    def idle(self, now_ms: float) -> list[int]:
        """Return the places that are free by then, in order; not to be changed, and true until the next call."""
        if now_ms < self._now_ms:
            self._now_ms = now_ms
            self._rebuild()
            return self._idle
        self._now_ms = now_ms
        busy = self._busy
        while busy and busy[0][0] <= now_ms:
            at_ms, place = heappop(busy)
            if self._at_ms[place] == at_ms and not self._is_idle[place]:
                self._is_idle[place] = True
                insort(self._idle, place)
        return self._idle

    def first_ms(self) -> float:
        """When the first of the busy workers is free; infinite where none is busy."""
        busy = self._busy
        while busy:
            at_ms, place = busy[0]
            if self._at_ms[place] == at_ms and not self._is_idle[place]:
                return at_ms
            heappop(busy)
        return math.inf

    def first(self) -> list[int]:
        """Return the places of the busy workers that are free first, in order: several where they tie."""
        first_ms, busy = self.first_ms(), self._busy
        if not busy:
            return []
        entry = heappop(busy)
        places = [entry[1]]
        while busy and busy[0][0] == first_ms:
            place = heappop(busy)[1]
            if place != places[-1] and self._at_ms[place] == first_ms and not self._is_idle[place]:
                places.append(place)
        for place in places:
            heappush(busy, (first_ms, place))
        return places

    def wait_ms(self, now_ms: float) -> float:
        """Time until the first worker is free: 0 where one is idle, infinite where there is none."""
        if self.idle(now_ms):
            return 0.0
        return max(0.0, self.first_ms() - now_ms)

    def _rebuild(self) -> None:
        now_ms = self._now_ms
        self._is_idle = [at_ms <= now_ms for at_ms in self._at_ms]
        self._idle = [place for place, is_idle in enumerate(self._is_idle) if is_idle]
        self._busy = [(at_ms, place) for place, at_ms in enumerate(self._at_ms) if at_ms > now_ms]
        heapify(self._busy)

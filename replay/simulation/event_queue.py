"""The queue of simulated events: a heap of actions on one clock, which stands still while an action runs."""

import itertools
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")


class EventQueue:
    """Actions in order of time; at one moment in the order in which they were entered, so that runs repeat."""

    __slots__ = ("_heap", "_order", "now_ms")

    def __init__(self, now_ms: float = 0.0) -> None:
        self.now_ms = now_ms
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._order = itertools.count()

    def at(self, at_ms: float, action: Callable[[T], None], about: T) -> None:
        """Carry out `action(about)` then, or now if that is past."""
        heappush(self._heap, (at_ms, next(self._order), action, about))

    def advance(self, until_ms: float) -> None:
        """Carry out everything up to and at a moment, which is now afterwards."""
        heap = self._heap
        while heap and heap[0][0] <= until_ms:
            at_ms, _, action, about = heappop(heap)
            if at_ms > self.now_ms:
                self.now_ms = at_ms
            action(about)
        self.now_ms = max(self.now_ms, until_ms)

"""The queue of simulated events: a heap of actions on one clock, which stands still while an action runs."""

import itertools
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")


class EventQueue:
    """Actions in order of time; at one moment in the order in which they were entered, so that runs repeat."""

    __slots__ = ("_heap", "_order", "now_ms")

    def __init__(self, now_ms: float = 0.0) -> None:
        self.now_ms = now_ms
        self._heap: list[tuple[float, int, Callable[[Any], None], Any, bool]] = []
        self._order = itertools.count()

    def at(self, at_ms: float, action: Callable[[T], None], about: T) -> None:
        """Carry out `action(about)` then, or now if that is past."""
        heappush(self._heap, (at_ms, next(self._order), action, about, False))

    def repeat(self, at_ms: float, action: Callable[[T], None], about: T) -> None:
        """Carry out then what repeats itself for ever, and changes nothing where nothing else happens."""
        heappush(self._heap, (at_ms, next(self._order), action, about, True))

    def skip(self, until_ms: float, step_ms: float) -> float:
        """Let the whole steps pass in which nothing but repetitions is entered, without these; return how long, in ms.

        The repetitions go on as if the time had not passed.
        """
        once_ms = min((entry[0] for entry in self._heap if not entry[-1]), default=until_ms)
        skipped_ms = (min(until_ms, once_ms) - self.now_ms) // step_ms * step_ms
        if skipped_ms <= 0:
            return 0.0
        self._heap = [(entry[0] + skipped_ms, *entry[1:]) if entry[-1] else entry for entry in self._heap]
        heapify(self._heap)
        self.now_ms += skipped_ms
        return skipped_ms

    def advance(self, until_ms: float) -> None:
        """Carry out everything up to and at a moment, which is now afterwards."""
        heap = self._heap
        while heap and heap[0][0] <= until_ms:
            at_ms, _, action, about, _ = heappop(heap)
            if at_ms > self.now_ms:
                self.now_ms = at_ms
            action(about)
        self.now_ms = max(self.now_ms, until_ms)

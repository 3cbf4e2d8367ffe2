"""Delays of a deployment beside generation, drawn from measured distributions, on the simulated clock."""

from collections.abc import Callable
from typing import TypeVar

from replay.simulation.draws.chance import uniform
from replay.simulation.draws.hop_latencies import Slots, sample
from replay.simulation.event_queue import EventQueue

T = TypeVar("T")

DRAWS = 1024  # of a stretch of time, after which they come again


class Delay:
    """One kind of delay; without a distribution it takes no time, and nothing is drawn."""

    def __init__(self, events: EventQueue, distributions: Slots, slot_ms: float, seed: int, salt: str) -> None:
        self._events, self._slot_ms = events, slot_ms
        ranks = uniform(seed, salt, 0, DRAWS)
        self._ms: list[list[float]] = [sample(each, ranks).tolist() for each in distributions]
        self._next = 0
        self.takes_time = bool(self._ms)

    def next_ms(self) -> float:
        """The next draw, of the distribution of now."""
        if not self._ms:
            return 0.0
        self._next = (self._next + 1) % DRAWS
        slot = min(len(self._ms) - 1, max(0, int(self._events.now_ms / self._slot_ms)))
        return self._ms[slot][self._next]

    def before(self, action: Callable[[T], None]) -> Callable[[T], None]:
        """The action, carried out so much later."""
        return action if not self._ms else lambda about: self.put_off(action, about)

    def put_off(self, action: Callable[[T], None], about: T) -> None:
        """Carry it out later; at once where it takes no time."""
        if self._ms:
            self._events.at(self._events.now_ms + self.next_ms(), action, about)
        else:
            action(about)

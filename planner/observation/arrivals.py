"""Prompts as they arrive: what is remembered of them for demand, forecast and histograms."""

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from planner.observation.observation import COUNTS_S, PROMPTS
from schemas.ids import RecentIds

MAX_ARRIVALS = 200_000  # remembered, about 1,700 a second; 0.25 KB each, 50 MB in all (measured)
KEPT_MS = 2 * 1000 * COUNTS_S  # for which an arrival is remembered; the last PROMPTS are longer
KNOWN_MS = 600_000  # for which an id counts once, at most
MAX_KINDS = 1000  # of classes, by strategy


class Prompts(NamedTuple):
    """The last PROMPTS prompts, the oldest first."""

    hardness: Sequence[float]
    classes: Sequence[Mapping[str, str]]
    tiers: Sequence[str]


class ArrivalLog(Protocol):
    """The log of arrivals that observations are made of. A request counts once, one that a quota refused not at all."""

    def times_ms(self, now_ms: int) -> Sequence[int] | np.ndarray:
        """Return the arrival times (epoch ms), all within COUNTS_S before now; older and later ones may be included."""

    def last(self) -> Prompts:
        """Return the most recent prompts."""


class Arrival(NamedTuple):
    """A prompt as it was classified, as far as it is counted."""

    at_ms: int
    hardness: float
    classes: Mapping[str, str]
    tier: str


class Arrivals:
    """Prompts by the id of their request, each request once: a storm of retries asks for no more images.

    What a tenant's quota refused is no demand: no plan could serve it.
    """

    def __init__(self) -> None:
        self._known: dict[str, Arrival | None] = {}  # by id, in their order; None: it was taken back
        self._ids = RecentIds(KNOWN_MS, MAX_ARRIVALS)  # of these, and of those before them
        self._newest_ms = 0  # of the last that came
        self._classes: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}  # each kind once: there are few

    def clear(self) -> None:
        """A reader begins again with the window."""
        self._known.clear()
        self._ids = RecentIds(KNOWN_MS, MAX_ARRIVALS)

    def add(self, request_id: str, arrival: Arrival) -> bool:
        """Add an arrival, and return whether it is one: its request was not known."""
        if request_id in self._known or request_id in self._ids:
            return False
        self._newest_ms = arrival.at_ms
        shared = arrival._replace(classes=self._shared(arrival.classes), tier=sys.intern(arrival.tier))
        self._remember(request_id, shared)
        return True

    def take_back(self, request_id: str) -> None:
        """A quota refused it; its prompt may be read later than that."""
        self._remember(request_id, None)

    def _shared(self, classes: Mapping[str, str]) -> Mapping[str, str]:
        if len(self._classes) > MAX_KINDS:
            self._classes.clear()
        return self._classes.setdefault(tuple(sorted(classes.items())), classes)

    def _remember(self, request_id: str, arrival: Arrival | None) -> None:
        self._known[request_id] = arrival
        self._ids.add(request_id, self._newest_ms)
        for _ in range(2):  # one more than has come, so that those of a burst go
            first = next(iter(self._known))
            oldest = self._known[first]
            is_old = oldest is None or oldest.at_ms < self._newest_ms - KEPT_MS
            if len(self._known) > MAX_ARRIVALS or (is_old and len(self._known) > PROMPTS):
                del self._known[first]

    def times_ms(self, _now_ms: int) -> list[int]:
        """Return the arrival times of the remembered requests."""
        return [arrival.at_ms for arrival in list(self._known.values()) if arrival]

    def last(self) -> Prompts:
        """The last prompts that were not taken back."""
        known = (arrival for arrival in reversed(list(self._known.values())) if arrival)
        newest = list(islice(known, PROMPTS))[::-1]
        return Prompts([a.hardness for a in newest], [a.classes for a in newest], [a.tier for a in newest])

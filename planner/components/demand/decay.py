"""Counts that halve with time, so that what was asked for lately weighs more than what was asked for often once."""

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)

MAX_KEYS = 20_000  # remembered; beyond a quarter more the smallest are forgotten


class _Count(NamedTuple):
    value: float
    at_ms: float


class DecayedCounts(Generic[K]):
    """Counts by key that halve each `half_life_ms`. Not thread-safe: one owner; times are arguments, on one clock.

    A time before a key's last one decays nothing. Raises ValueError for a half-life that is not positive.
    """

    def __init__(self, half_life_ms: float, max_keys: int = MAX_KEYS) -> None:
        if not half_life_ms > 0:
            raise ValueError(f"half_life_ms must be above 0: got {half_life_ms}")
        self.half_life_ms = half_life_ms
        self._max_keys = max_keys
        self._counts: dict[K, _Count] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def __iter__(self) -> Iterator[K]:
        return iter(self._counts)

    def add(self, key: K, now_ms: float, amount: float = 1.0) -> None:
        """Add an amount to a key's count."""
        seen = self._counts.get(key)
        at_ms = now_ms if seen is None else max(now_ms, seen.at_ms)
        self._counts[key] = _Count(self.value(key, now_ms) + amount, at_ms)
        if len(self._counts) > 1.25 * self._max_keys:
            self._forget(now_ms)

    def value(self, key: K, now_ms: float) -> float:
        """Return a key's count; 0 for one never added."""
        seen = self._counts.get(key)
        if seen is None:
            return 0.0
        return seen.value * math.exp2(-max(0.0, now_ms - seen.at_ms) / self.half_life_ms)

    def values(self, now_ms: float) -> dict[K, float]:
        """Return the counts of all keys."""
        return {key: self.value(key, now_ms) for key in self._counts}

    def rate_per_ms(self, key: K, now_ms: float) -> float:
        """Return how often per ms a key is added to: of a steady rate r the count settles at r x half-life / ln 2."""
        return self.value(key, now_ms) * math.log(2) / self.half_life_ms

    def last_ms(self, key: K) -> float | None:
        """Return when a key was last added to; None if never."""
        seen = self._counts.get(key)
        return None if seen is None else seen.at_ms

    def snapshot(self) -> dict[K, tuple[float, float]]:
        """Return the state as plain values, for `restore`."""
        return {key: (seen.value, seen.at_ms) for key, seen in self._counts.items()}

    def restore(self, snapshot: Mapping[K, tuple[float, float]]) -> None:
        """Replace the state by that of a snapshot."""
        self._counts = {key: _Count(float(value), float(at_ms)) for key, (value, at_ms) in snapshot.items()}

    def _forget(self, now_ms: float) -> None:
        largest = sorted(self._counts, key=lambda key: self.value(key, now_ms), reverse=True)[: self._max_keys]
        self._counts = {key: self._counts[key] for key in largest}

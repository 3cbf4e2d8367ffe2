"""Counts what loading components cost, by kind, by how many a call needs, and in workers that came during the run.

An update is what MLoRA calls it (sections 5.2 and 7.3): a component that a call finds elsewhere than on its worker's
device, and loads; an update of the pipeline is all that one call loads.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

from planner.components.component import kind_of
from planner.components.tiers import Use

PIPELINE: Final = "pipeline"
NEWCOMER_CALLS: Final = 10  # that a new worker is looked at for. Ours


class Moments:
    """Count, mean and spread of times."""

    __slots__ = ("count", "total", "total_squares")

    def __init__(self) -> None:
        self.count, self.total, self.total_squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        """Take in a time."""
        self.count += 1
        self.total += value
        self.total_squares += value * value

    @property
    def mean(self) -> float:
        """Mean; 0 of none."""
        return self.total / self.count if self.count else 0.0

    @property
    def variation(self) -> float:
        """Coefficient of variation; 0 of none."""
        if not self.total:
            return 0.0
        return math.sqrt(max(0.0, self.total_squares / self.count - self.mean**2)) / self.mean


class UpdateMetrics:
    """The updates of all workers of one run."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Moments] = {}
        self._by_parts: dict[int, Moments] = {}
        self._newcomers = Moments()
        self._from: Counter[str] = Counter()

    def add(self, use: Use, waits_ms: float, nth_call: int | None) -> None:
        """Count a call and its wait; `nth_call`: its number, for a worker that joined during the run, else None."""
        for id_, ms in use.load_ms.items():
            kind = str(kind_of(id_))
            self._by_kind.setdefault(kind, Moments()).add(ms)
            self._from[f"{kind}.{use.found[id_].label}"] += 1
        if use.load_ms:
            self._by_kind.setdefault(PIPELINE, Moments()).add(waits_ms)
        self._by_parts.setdefault(len(use.found), Moments()).add(waits_ms)
        if nth_call is not None and nth_call <= NEWCOMER_CALLS:
            self._newcomers.add(waits_ms)

    def as_table(self) -> dict[str, Mapping[str, float]]:
        """Return the figures, as METRICS.md says them."""
        kinds, parts = dict(sorted(self._by_kind.items())), dict(sorted(self._by_parts.items()))
        return {
            "count": {kind: float(own.count) for kind, own in kinds.items()},
            "from": {name: float(count) for name, count in sorted(self._from.items())},
            "mean_s": {kind: round(own.mean / 1000, 4) for kind, own in kinds.items()},
            "cv": {kind: round(own.variation, 4) for kind, own in kinds.items()},
            "wait_s_by_parts": {str(count): round(own.mean / 1000, 4) for count, own in parts.items()},
            "newcomers": {"calls": float(self._newcomers.count), "wait_s": round(self._newcomers.mean / 1000, 4)},
        }

"""Counts what a run's workers loaded and moved of components."""

from collections import Counter
from collections.abc import Iterable, Mapping

from planner.components.component import Tier
from planner.components.tiers import LOCAL, Use
from replay.simulation.results.update_metrics import UpdateMetrics

Figure = float | Mapping[str, float] | Mapping[str, Mapping[str, float]]


class ComponentMetrics:
    """The counts of all workers of one run."""

    def __init__(self) -> None:
        self._hits: Counter[Tier] = Counter()
        self._moved: Counter[Tier] = Counter()
        self._ahead_bytes = 0  # of those, moved by idle workers ahead of any request
        self._loads = self._ahead = self._cold_starts = 0
        self._load_ms = 0.0
        self._samples = self._holders = self._bases = 0
        self._most = 0.0
        self._updates = UpdateMetrics()

    def used(self, use: Use, jobs: int, waits_ms: float, *, is_cold: bool, nth_call: int | None = None) -> None:
        """Count a call of `jobs` jobs, and their wait for components; `is_cold`: for a base from remote.

        `nth_call`: number of the call of a worker that joined during the run; None for other workers.
        """
        self._updates.add(use, waits_ms, nth_call)
        self._hits.update(use.found.values())
        self._moved.update(use.moved_bytes)
        self._loads += len(use.load_ms)
        self._load_ms += waits_ms
        self._cold_starts += jobs * is_cold

    def prefetched(self, use: Use) -> None:
        """Count a component that an idle worker loaded."""
        self._moved.update(use.moved_bytes)
        self._ahead_bytes += use.moved_bytes[Tier.VOLUME]
        self._ahead += bool(use.load_ms)

    def sample(self, bases: Iterable[str]) -> None:
        """Take in the bases on all devices, each as often as a device holds it."""
        counts = Counter(bases)
        if counts:
            self._samples += 1
            self._holders += counts.total()
            self._bases += len(counts)
            self._most += max(counts.values())

    def as_table(self) -> dict[str, Figure]:
        """Return the figures, as METRICS.md says them."""
        used = self._hits.total()
        return {
            "bytes_moved": {tier.label: self._moved[tier] for tier in LOCAL} | {"ahead": self._ahead_bytes},
            "loads": self._loads,
            "prefetches": self._ahead,
            "load_s": round(self._load_ms / 1000, 3),
            "hits_by_tier": {tier.label: round(self._hits[tier] / used, 6) if used else 0.0 for tier in Tier},
            "replicas": {
                "mean": round(self._holders / self._bases, 6) if self._bases else 0.0,
                "most": round(self._most / self._samples, 6) if self._samples else 0.0,
            },
            "cold_starts": self._cold_starts,
            "updates": self._updates.as_table(),
        }

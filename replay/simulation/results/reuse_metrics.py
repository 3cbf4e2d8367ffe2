"""Counts reuse in a run, from the first plan on that asks for it."""

from collections import Counter
from dataclasses import dataclass, field

from planner.reuse.neighbour import Miss
from planner.reuse.steps import Decision, Reuse
from replay.simulation.results.run_metrics import Latencies

FINER = 1000.0  # times are held in microseconds: a lookup may take less than a millisecond
RANKS = (50, 99)
MISSES = (
    Miss.INELIGIBLE, Miss.RETRY, Miss.UNPROFITABLE, Miss.BREAKER, Miss.TIMEOUT, Miss.NONE, Miss.FLOOR, Miss.GUARD,
    Miss.STEPS,
)  # fmt: skip
Figure = float | dict[str, float] | None


@dataclass(slots=True)
class ReuseMetrics:
    """Counts of jobs that were generated, and of lookups."""

    jobs: int = 0  # generated, on any level
    asked: int = 0  # of them, on a level that lets a stored latent save steps
    hits: int = 0
    saved_share: float = 0.0  # sum over jobs of the share of their steps that they skipped
    misses: Counter[str] = field(default_factory=Counter)  # why a job that asked ran in full
    lookups: int = 0  # that the stores were asked for
    unanswered: int = 0  # of them: failed, or cut by their deadline
    times: Latencies = field(default_factory=Latencies)
    down_ms: float = 0.0  # that the vector store was away

    def on_decided(self, decision: Decision) -> None:
        """Count how a job begins that asked."""
        self.asked += 1
        if isinstance(decision, Reuse):
            self.hits += 1
            self.saved_share += decision.step / decision.steps
        else:
            self.misses[decision.why] += 1

    def on_lookup(self, took_ms: float, *, has_failed: bool) -> None:
        """Count a lookup; one that was cut has its deadline."""
        self.lookups += 1
        self.unanswered += has_failed
        self.times.add(took_ms * FINER)

    def as_table(self, under_way: int, violations: int) -> dict[str, Figure]:
        """Return the figures; `under_way`: requests that arrived while the fleet changed its strategy."""
        return {
            "jobs": self.jobs,
            "hit_rate": round(self.hits / self.asked, 6) if self.asked else None,
            "saved_steps_share": round(self.saved_share / self.jobs, 6) if self.jobs else None,
            "misses": {miss.value: self.misses[miss] for miss in MISSES},
            "lookups": self.lookups,
            "unanswered": self.unanswered,
            "retrieval_ms": {f"p{rank}": self._time_ms(rank / 100) for rank in RANKS},
            "down_s": round(self.down_ms / 1000, 3),
            "under_way": {"requests": under_way, "violations": violations},
        }

    def _time_ms(self, share: float) -> float:
        return round((self.times.quantile(share) or 0.0) / FINER, 3)

"""What one simulated worker knows of its lookups: the breaker before the stores, and what its heartbeats say."""

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from planner.reuse.breaker import Breaker, Call, unanswered_share
from planner.reuse.deadline import DEFAULT_RULE
from schemas.messages import ReuseHealth

WINDOW: Final = 100  # calls that a heartbeat looks back on
CLOSED: Final = "closed"


@dataclass(slots=True)
class WorkerLookups:
    """What one worker knows of its lookups."""

    breaker: Breaker = field(default_factory=Breaker)
    recent: deque[Call] = field(default_factory=lambda: deque(maxlen=WINDOW))
    hits: int = 0
    misses: Counter[str] = field(default_factory=Counter)
    looked_ms: float = 0.0  # when it looked anything up, or probed, the last time
    budget_ms: float = DEFAULT_RULE.max_ms  # the newest deadline
    health: ReuseHealth | None = None  # as it was reported last; None: something has changed since

    def add(self, call: Call, after: Breaker, now_ms: float) -> None:
        """Add a lookup or a probe; those before the breaker opened or closed say nothing any more."""
        before, self.breaker, self.looked_ms, self.health = self.breaker, after, now_ms, None
        self.recent.append(call)
        if before.opened is not after.opened:
            rule = after.rule
            keep = rule.max_failures if after.is_open else rule.good_probes
            while len(self.recent) > keep:
                self.recent.popleft()

    def report(self) -> ReuseHealth:
        """Return what a heartbeat says."""
        if self.health is None:
            times_ms = sorted(call.took_ms for call in self.recent)
            self.health = ReuseHealth(
                breaker=self.breaker.opened.value or CLOSED,
                lookups=len(self.recent),
                unanswered=unanswered_share(tuple(self.recent)),
                p50_ms=_percentile(times_ms, 0.5),
                p95_ms=_percentile(times_ms, 0.95),
                hits=self.hits,
                misses=dict(self.misses),
            )
        return self.health


def _percentile(rising_ms: Sequence[float], share: float) -> float:
    return rising_ms[min(len(rising_ms) - 1, math.ceil(share * len(rising_ms)) - 1)] if rising_ms else 0.0

"""What one simulated worker knows of its lookups: the live worker's own object, and the last report of it."""

from collections.abc import Sequence

from planner.reuse.lookups.breaker import Probe
from planner.reuse.lookups.deadline import DEFAULT_RULE, DeadlineRule
from planner.reuse.lookups.lookup import Lookup, LookupJob
from planner.reuse.lookups.worker import GeneratedJobs, LookupLogic
from planner.reuse.steps import Decision, FullRun
from planner.reuse.terms import Terms
from schemas.messages import ReuseHealth


class WorkerLookups:
    """One worker's logic of lookups, and its counts. A report is kept until something changes: heartbeats are many."""

    __slots__ = ("_generated", "_health", "logic")

    def __init__(self, now_ms: float, deadlines: DeadlineRule = DEFAULT_RULE) -> None:
        self.logic = LookupLogic(now_ms, deadlines)
        self._generated = GeneratedJobs()
        self._health: ReuseHealth | None = None

    def begin(self, terms: Terms, jobs: Sequence[LookupJob]) -> list[Lookup | FullRun]:
        """Decide for each job of a batch whether the stores are asked; a simulated engine takes latents."""
        return self.logic.begin(terms, jobs, is_there=True)

    def finish(self, decision: Decision, took_ms: float, now_ms: float) -> None:
        """Take in the outcome of a lookup."""
        self._health = None
        self.logic.finish(decision, took_ms, now_ms)

    def probed(self, probe: Probe, now_ms: float) -> None:
        """Take in the outcome of a probe."""
        self._health = None
        self.logic.probed(probe, now_ms)

    def generated(self, decision: Decision) -> None:
        """Count a job that was generated."""
        self._health = None
        self._generated.add(decision)

    def report(self) -> ReuseHealth:
        """Return what a heartbeat says."""
        if self._health is None:
            self._health = self.logic.report(self._generated)
        return self._health

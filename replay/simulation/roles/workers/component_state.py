"""What one simulated worker holds of components, what it is loading ahead, and its last report."""

from planner.components.component import Component
from planner.components.eviction import EvictionCandidate, ReuseEstimate, eviction_under, score_named
from planner.components.residency import Load, ResidencyLogic
from planner.components.tiers import WorkerTiers
from replay.simulation.component_setup import ComponentSetup
from schemas.messages import Plan, WorkerComponents


class ComponentState:
    """One worker's tiers, what it is loading ahead, and its last report."""

    __slots__ = (
        "_eviction",
        "_report",
        "_score",
        "calls",
        "load",
        "load_ends_ms",
        "logic",
        "plan",
        "tiers",
    )

    def __init__(self, worker_id: str, table: dict[str, Component], setup: ComponentSetup) -> None:
        self._eviction, self._score = setup.eviction, eviction_under(None)
        self.tiers = WorkerTiers(table, setup.budgets, ReuseEstimate(), self._eviction_score)
        self.logic = ResidencyLogic(worker_id, table)
        self.calls = 0  # that needed components
        self.load: Load | None = None  # that it brings to a tier ahead of any request
        self.load_ends_ms = 0.0
        self.plan: Plan | None = None  # that it follows
        self._report: WorkerComponents | None = None

    def follow(self, plan: Plan) -> None:
        """Obey the plan in force: what it lists is pinned, and it says by which rule a component leaves."""
        if self.plan is not plan:
            self.plan = plan
            self._score = score_named(self._eviction) if self._eviction else eviction_under(plan.residency)
            if self.logic.follow(plan.residency):
                self.tiers.pinned = self.logic.pinned

    def _eviction_score(self, candidate: EvictionCandidate, now_ms: float) -> float:
        return self._score(candidate, now_ms)

    def changed(self) -> None:
        """Something moved: the last report holds no more."""
        self._report = None

    def report(self) -> WorkerComponents:
        """Return what a heartbeat says; kept until something changes, as heartbeats are many."""
        if self._report is None:
            self._report = self.tiers.report()
        return self._report

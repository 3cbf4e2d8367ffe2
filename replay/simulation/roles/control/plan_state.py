"""The plan in force, with the facts that a sender needs of it for every request."""

import json

from planner.catalog.entries import variant_of
from planner.catalog.model import Catalog
from planner.control.validity import is_newer
from planner.serving.routing.cascades import judging_ms
from planner.solvers.levels.strategy_switch import is_under_way
from replay.simulation.results.run_metrics import Judges
from schemas.messages import Plan


class PlanState:
    """Everyone reads the same plan at once; live roles have it within a second."""

    plan: Plan  # the one in force, once there is one

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.before: Plan | None = None  # the plan in force, for the planner
        self.is_under_way = False  # the fleet changes from one strategy to the other
        self._judging_ms: dict[str, float] = {}
        self._judges: dict[str, Judges] = {}

    def obey(self, plan: Plan) -> None:
        """Take over a newer plan."""
        if is_newer(self.before.version if self.before else 0, plan):
            self.plan = self.before = plan
            self._judges, self._judging_ms = {}, {}
            self.is_under_way = plan.reuse is not None and is_under_way(json.loads(plan.memory))

    def judging_ms(self, level: str) -> float:
        """Return `judging_ms` of a level, cached for this plan."""
        if level not in self._judging_ms:
            self._judging_ms[level] = judging_ms(self.plan, level, self._catalog)
        return self._judging_ms[level]

    def judges(self, level: str) -> Judges:
        """Return the cascade of which a level is the first or the second; None without one."""
        if level not in self._judges:
            variant = variant_of(level)
            cascade = next((c for c in self.plan.cascades if variant in (c.level, c.next_level)), None)
            judges = (cascade.level, cascade.next_level, cascade.discriminator) if cascade else None
            self._judges[level] = judges
        return self._judges[level]

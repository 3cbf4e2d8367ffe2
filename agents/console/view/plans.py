"""The newest plans, the order in force, and the switches between them."""

import bisect
import logging
from collections import OrderedDict
from typing import Final

from agents.runtime.following import FollowedPlans
from agents.runtime.views import PlanView
from planner.catalog.model import Catalog
from planner.control.renewal.same_plan import Decision, decisions
from schemas.errors import PochadeError
from schemas.messages import Plan
from streams.control.history import published
from streams.settings import Settings

log = logging.getLogger(__name__)

MAX_PLANS: Final = 300
ROLE: Final = "console"


class PlanHistory(PlanView):
    """The plan view of a console, which keeps the newest plans."""

    def __init__(self, catalog: Catalog) -> None:
        PlanView.__init__(self, ROLE, catalog)
        self._plans: OrderedDict[int, Plan] = OrderedDict()
        self._switches_ms: list[int] = []  # when policy or strategy changed, rising

    def obey(self, plan: Plan) -> None:
        """Take over a plan that lies on the topic, and keep it."""
        before = self.plan
        super().obey(plan)
        if self.plan is not None and self.plan is not before:
            self.keep(self.plan)

    def keep(self, plan: Plan) -> None:
        """Keep a plan that was obeyed; the oldest are dropped."""
        if plan.version in self._plans:
            return
        last = next(reversed(self._plans.values()), None)
        if last is not None and (last.policy, last.strategy) != (plan.policy, plan.strategy):
            bisect.insort(self._switches_ms, plan.created_ms)
            del self._switches_ms[:-MAX_PLANS]
        self._plans[plan.version] = plan
        while len(self._plans) > MAX_PLANS:
            self._plans.popitem(last=False)

    def history(self) -> list[Decision]:
        """Return the decisions of the kept plans, the newest first."""
        return decisions(sorted(self._plans.values(), key=lambda plan: plan.version))[::-1]

    def with_version(self, version: int) -> Plan | None:
        """Return a kept plan; None if it is older or unknown."""
        return self._plans.get(version)

    def switches(self, since_ms: int, until_ms: int) -> int:
        """Return how often policy or strategy changed between two moments (epoch ms)."""
        return bisect.bisect(self._switches_ms, until_ms) - bisect.bisect(self._switches_ms, since_ms)


class FollowedHistory(PlanHistory, FollowedPlans):
    """Follows the control topic; plans from before the start are read once."""

    def __init__(self, settings: Settings, catalog: Catalog) -> None:
        PlanHistory.__init__(self, catalog)
        FollowedPlans.__init__(self, settings, ROLE, catalog)

    def load(self) -> None:
        """Read the newest plans from the topic; if that fails the history begins now."""
        try:
            found = published(self._settings, most=2 * MAX_PLANS)
        except PochadeError as error:
            log.warning("the history of plans begins now: %s", error)
            return
        for plan in found.plans:
            self.keep(plan)

"""From what is seen to the plan to publish, if any: the policy's, an earlier one's, or the last one on who is left."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from agents.planner import ROLE
from agents.planner.solving import Solving
from planner.catalog.parse import Catalog
from planner.control.carry_over import kept, survived
from planner.control.plans import check, memory_of, publish, same_decision
from planner.control.proposal import Draft
from planner.control.propose import Rules, let_in, made
from planner.control.replan import stays
from planner.observation.observation import Observation
from schemas.messages import Plan
from streams import metrics
from streams.settings import Settings

log = logging.getLogger(__name__)

NO_OTHERS = Rules()


def rules_of(settings: Settings) -> Rules:
    """What the settings ask of every policy."""
    return Rules(sheds=settings.planner.sheds, explore=settings.planner.explore)


@dataclass(frozen=True, slots=True)
class Order:
    """Whose decision is wanted: a policy's, or, where `back_to` is given, that of an earlier plan."""

    policy: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    back_to: Plan | None = None


class Choice:
    """Makes plans; pure but for the policy's thread, the log and the counters."""

    def __init__(self, catalog: Catalog, solving: Solving, rules: Rules = NO_OTHERS) -> None:
        self._catalog, self._solving, self._rules = catalog, solving, rules

    def plan(self, order: Order, seen: Observation, before: Plan | None, newest: int = 0) -> Plan | None:
        """The plan to publish after `before`; None: what is in force stays.

        A policy that fails changes nothing, unless workers are gone: then the plan in force goes on with those left.
        `newest`: the highest version on the topic. Where it is not `before`'s, others may obey what this planner
        refused (it has another catalog), and even the same decision is published above it.
        """
        policy = order.back_to.policy if order.back_to else order.policy
        found = self._solving.solve(policy, partial(self._checked, order, policy, seen, before))
        if isinstance(found, str):
            return self._without_the_gone(found, seen, before, newest)
        if before is not None and newest <= before.version and self._stays(found, order, policy, seen, before):
            return None
        return publish(found, before, policy, seen.now_ms, newest)

    def _checked(self, order: Order, policy: str, seen: Observation, before: Plan | None) -> Draft:
        if order.back_to is not None:
            reason = f"back to plan {order.back_to.version}: {order.back_to.reason}"
            draft = let_in(kept(order.back_to, seen.workers, self._catalog, reason), seen, self._catalog, self._rules)
        else:
            draft = made(policy, seen, self._catalog, memory_of(before, policy), order.parameters, self._rules)
        check(publish(draft, before, policy, seen.now_ms), self._catalog)
        return draft

    def _without_the_gone(self, why: str, seen: Observation, before: Plan | None, newest: int) -> Plan | None:
        if before is None:
            return None
        try:
            plan = survived(before, why, seen, self._catalog, self._rules, newest)
        except Exception:  # a plan of a catalog that is no more
            log.exception("plan %d cannot go on without the workers that are gone", before.version)
            return None
        if plan is not None:
            metrics.FALLBACKS.labels(ROLE, "kept-plan").inc()
        return plan

    def _stays(self, draft: Draft, order: Order, policy: str, seen: Observation, before: Plan) -> bool:
        if same_decision(draft, before, policy):
            return True
        if order.back_to is not None or not stays(draft, policy, seen, before, self._catalog):
            return False
        metrics.FALLBACKS.labels(ROLE, "change-not-worth").inc()
        log.debug("a change is not worth its cost: %s", draft.reason)
        return True

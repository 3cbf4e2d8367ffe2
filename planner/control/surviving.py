"""What is obeyed when a policy has made no plan; live and simulated planners ask alike."""

from planner.catalog.parse import Catalog
from planner.control.carry_over import gone, kept
from planner.control.plans import check, publish
from planner.control.propose import Rules, let_in
from planner.observation.observation import Observation
from schemas.messages import Plan


def survived(before: Plan, why: str, seen: Observation, catalog: Catalog, rules: Rules, newest: int = 0) -> Plan | None:
    """The plan in force on the workers that are left of it; None where all are there, so that it stays as it is.

    `why`: what became of the policy, for the reason. `newest`: as `publish` has it.

    Raises PochadeError: the plan is of a catalog that is no more.
    """
    lost = gone(before, seen.workers)
    if not lost:
        return None
    reason = f"{', '.join(lost)} gone, the rest of plan {before.version} stays: {why}"
    draft = let_in(kept(before, seen.workers, catalog, reason), seen, catalog, rules)
    plan = publish(draft, before, before.policy, seen.now_ms, newest)
    check(plan, catalog)
    return plan

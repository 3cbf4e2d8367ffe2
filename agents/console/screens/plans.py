"""*Plan*: the plan in force, those before it, how two differ, and what an operator may order."""

import itertools
from typing import Any

from agents.console.screens.context import Context
from agents.console.screens.fleet import deployment_of
from agents.console.screens.now import binding_of
from agents.planner.describing import (
    describe_admission,
    describe_cascade,
    describe_reuse,
    describe_routes,
    differences,
)
from planner.control.renewal.same_plan import Decision, decide_alike
from planner.policies import DEFAULT, POLICIES
from schemas.messages import Plan
from streams.control.reuse import is_asked_for


def values(context: Context) -> dict[str, Any]:
    """Return what the template shows; the query may name two versions to compare."""
    plans = context.view.plans
    history = plans.history()
    chosen = plans.plan
    before, after = (number_of(context.query.get(name, "")) for name in ("before", "after"))
    newer = plans.with_version(after) if after else chosen
    older = plans.with_version(before) if before else _before(history, newer)
    return {
        "plan": chosen, "pin": plans.pin, "refusal": plans.refusal, "history": history[:60],
        "binding": binding_of(context, deployment_of(context), chosen) if chosen else [],
        "described": described(chosen) if chosen else [],
        "newer": newer, "older": older, "changes": differences(older, newer) if older and newer else [],
        "policies": POLICIES.names(), "default": DEFAULT, "switched": switched_in(history),
    }  # fmt: skip


def number_of(text: str) -> int:
    """Return the number that a text is; 0: none."""
    return int(text[:12]) if text.isdecimal() else 0


def _before(history: list[Decision], plan: Plan | None) -> Plan | None:
    """Return the plan of the newest decision before this plan's own."""
    earlier = [each.plan for each in history if plan is not None and each.plan.version < plan.version]
    return next((each for each in earlier if plan is not None and not decide_alike(each, plan)), None)


def described(plan: Plan) -> list[tuple[str, str]]:
    """Return what a plan decides, each in words."""
    rows = [("strategy", plan.strategy), ("dispatch", plan.dispatch), ("routes", describe_routes(plan.routes))]
    rows += [("cascade", describe_cascade(cascade)) for cascade in plan.cascades]
    rows += [("admitted", describe_admission(plan.admission))]
    if plan.reuse is not None and is_asked_for(plan):
        rows += [("reuse", describe_reuse(plan.reuse))]
    rows += [(f"batch of {variant}", str(size)) for variant, size in sorted(plan.batch.items())]
    return rows


def switched_in(history: list[Decision]) -> set[int]:
    """Return the versions of decisions with another policy or strategy than the one before."""
    pairs = itertools.pairwise(each.plan for each in history)
    return {newer.version for newer, older in pairs if (newer.policy, newer.strategy) != (older.policy, older.strategy)}

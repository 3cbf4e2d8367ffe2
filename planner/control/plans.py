"""Makes a plan to publish from a policy's proposal."""

import json
from dataclasses import replace
from typing import Any

from planner.control.proposal import PlanProposal
from planner.control.wording.sentence import describe
from schemas.messages import Plan


def publish(
    proposal: PlanProposal, previous: Plan | None, policy: str, now_ms: int, newest: int = 0, why: str = ""
) -> Plan:
    """The plan to write: the proposal with the version after the previous one's, from 1, in a sentence as its reason.

    `newest`: the highest version on the topic, where others may obey one that its planner does not. `why`: the event
    that called for the plan.
    """
    plan = Plan(
        version=max(newest, previous.version if previous else 0) + 1,
        policy=policy,
        strategy=proposal.strategy,
        created_ms=now_ms,
        reason=proposal.reason,
        routes=proposal.routes,
        cascades=proposal.cascades,
        allocation=proposal.allocation,
        batch=proposal.batch,
        dispatch=proposal.dispatch,
        holds=proposal.holds,
        expected=proposal.expected,
        memory=json.dumps(proposal.memory, sort_keys=True),
        admission=proposal.admission,
        reuse=proposal.reuse,
        scale=proposal.scale,
        residency=proposal.residency,
        quality_at_least=proposal.quality_at_least,
    )
    return replace(plan, reason=describe(plan, previous, proposal.reason, why))


def memory_of(plan: Plan | None, policy: str) -> dict[str, Any]:
    """Return the memory that a policy noted in the plan in force; {} if another policy, or none, made that plan."""
    return dict(json.loads(plan.memory)) if plan is not None and plan.policy == policy else {}

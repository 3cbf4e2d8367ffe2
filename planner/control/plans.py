"""Makes a plan to publish from a policy's proposal."""

import json
from dataclasses import replace
from typing import Any

from planner.control.proposal import PlanProposal
from planner.scaling.fleet import same_scale
from schemas.messages import Admission, Plan


def publish(proposal: PlanProposal, previous: Plan | None, policy: str, now_ms: int, newest: int = 0) -> Plan:
    """The plan to write: the proposal with the version after the previous one's, from 1.

    `newest`: the highest version on the topic, where others may obey one that its planner does not.
    """
    return Plan(
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
        expected=proposal.expected,
        memory=json.dumps(proposal.memory, sort_keys=True),
        admission=proposal.admission,
        reuse=proposal.reuse,
        scale=proposal.scale,
        residency=proposal.residency,
    )


def same_decision(proposal: PlanProposal, plan: Plan, policy: str | None = None) -> bool:
    """Whether the plan in force already says what the proposal does, so that nothing needs to be written.

    Version, time, reasons and expectation do not count; the policy's name does where it is given.
    """
    drafted = publish(proposal, None, policy or plan.policy, plan.created_ms)
    if admitted(proposal.admission) != admitted(plan.admission) or not same_scale(proposal.scale, plan.scale):
        return False
    alike = replace(
        drafted, version=plan.version, reason=plan.reason, expected=plan.expected, admission=plan.admission,
        scale=plan.scale,
    )  # fmt: skip
    return alike == plan


def admitted(admission: Admission | None) -> dict[str, float]:
    """tier -> share of its requests that is let in, where it is not all of them."""
    return {tier: share for tier, share in admission.shares.items() if share < 1} if admission else {}


def memory_of(plan: Plan | None, policy: str) -> dict[str, Any]:
    """Return the memory that a policy noted in the plan in force; {} if another policy, or none, made that plan."""
    return dict(json.loads(plan.memory)) if plan is not None and plan.policy == policy else {}

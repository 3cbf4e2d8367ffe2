"""Makes a plan to publish from a policy's proposal."""

import json
from dataclasses import replace
from typing import Any

from planner.control.proposal import PlanProposal
from planner.scaling.fleet import same_scale
from schemas.messages import Admission, Plan

FORGOTTEN = "{}"  # a memory without content
STAGE = "stage"  # in a policy's memory: of a course of several plans, such as a switch of strategy


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
    """Whether the plan in force already says what the proposal does, so that no plan needs to be published.

    Version, time, reasons, expectation and memories do not count; the policy's name does where it is given.
    """
    return decide_alike(publish(proposal, None, policy or plan.policy, plan.created_ms), plan)


def decide_alike(one: Plan, other: Plan) -> bool:
    """Whether readers do the same by either plan, at the same stage of the policy's course.

    Version, time, reasons, expectation and what else is remembered do not count.
    """
    if admitted(one.admission) != admitted(other.admission) or not same_scale(one.scale, other.scale):
        return False
    if _stage(one) != _stage(other):
        return False
    residency = one.residency
    if residency is not None and other.residency is not None:
        residency = replace(residency, memory=other.residency.memory)
    alike = replace(
        one, version=other.version, created_ms=other.created_ms, reason=other.reason, expected=other.expected,
        memory=other.memory, admission=other.admission, scale=other.scale, residency=residency,
    )  # fmt: skip
    return alike == other


def _stage(plan: Plan) -> object:
    try:
        return json.loads(plan.memory).get(STAGE)
    except (ValueError, RecursionError, AttributeError):  # no policy's: readers refuse it
        return None


def remembering(plan: Plan, noted: Plan) -> Plan:
    """Return the plan with what a record beside it remembers, expects and says; as it is if that decides otherwise."""
    if noted.version != plan.version or not decide_alike(noted, plan):
        return plan
    return replace(noted, created_ms=plan.created_ms)


def memories_of(plan: Plan) -> tuple[str, str, str]:
    """Return what the policy, scaling and placement remember, each as JSON."""
    scale, residency = plan.scale, plan.residency
    return plan.memory, scale.memory if scale else FORGOTTEN, residency.memory if residency else FORGOTTEN


def forgetting(plan: Plan) -> Plan:
    """Return the plan without its memories."""
    scale, residency = plan.scale, plan.residency
    return replace(
        plan,
        memory=FORGOTTEN,
        scale=replace(scale, memory=FORGOTTEN) if scale else None,
        residency=replace(residency, memory=FORGOTTEN) if residency else None,
    )


def admitted(admission: Admission | None) -> dict[str, float]:
    """tier -> share of its requests that is let in, where it is not all of them."""
    return {tier: share for tier, share in admission.shares.items() if share < 1} if admission else {}


def memory_of(plan: Plan | None, policy: str) -> dict[str, Any]:
    """Return the memory that a policy noted in the plan in force; {} if another policy, or none, made that plan."""
    return dict(json.loads(plan.memory)) if plan is not None and plan.policy == policy else {}

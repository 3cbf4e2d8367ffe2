"""Whether two plans decide the same, which decisions a course of plans was, and what a plan only remembers.

Readers of plans ask this, too: it imports nothing that makes a plan.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from schemas.messages import Admission, Plan, ScalePlan

FORGOTTEN = "{}"  # a memory without content
STAGE = "stage"  # in a policy's memory: of a course of several plans, such as a switch of strategy


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


class Decision(NamedTuple):
    """A plan, with those after it that decide the same."""

    plan: Plan  # the first of them
    published: int  # number of plans
    until_ms: int | None  # when another decision replaced it (epoch ms); None: it is in force

    def stood_ms(self, now_ms: int) -> int:
        """Return for how long it has been in force, or was."""
        return max(0, (now_ms if self.until_ms is None else self.until_ms) - self.plan.created_ms)


def decisions(plans: Iterable[Plan]) -> list[Decision]:
    """Group plans, in the order in which they were obeyed, by what they decide; the oldest decision comes first."""
    found: list[Decision] = []
    for plan in plans:
        if found and decide_alike(found[-1].plan, plan):
            found[-1] = found[-1]._replace(published=found[-1].published + 1)
            continue
        found[-1:] = [last._replace(until_ms=plan.created_ms) for last in found[-1:]]
        found.append(Decision(plan, 1, None))
    return found


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


def same_scale(one: ScalePlan | None, other: ScalePlan | None) -> bool:
    """Whether two groups `scale` decide the same; reasons, what the load alone would ask for, and memories aside."""
    if one is None or other is None:
        return one is other
    return one.warm == other.warm and one.targets == other.targets

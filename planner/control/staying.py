"""Whether the plan in force stays although a policy has made another draft; live and simulated planners ask alike."""

import json

from planner.catalog.parse import Catalog
from planner.control.hysteresis import change_of, worth
from planner.control.plans import admitted, same_decision
from planner.control.proposal import Draft
from planner.observation.observation import Observation
from planner.solvers.joint.problem import HOLD_S
from schemas.messages import Plan


def stays(draft: Draft, policy: str, seen: Observation, before: Plan, catalog: Catalog) -> bool:
    """The draft decides nothing new, or all it does is to move workers at a cost that it does not pay for."""
    if same_decision(draft, before, policy):
        return True
    if policy != before.policy or not only_moves(draft, seen, before):
        return False
    return not worth(change_of(before, draft, seen, catalog, HOLD_S))


def only_moves(draft: Draft, seen: Observation, before: Plan) -> bool:
    """Whether it moves workers at home elsewhere and nothing forces it to.

    It must where the fleet is not the one planned for, others are let in than before, or the policy is on a course of
    its own, such as a switch of strategy, which its memory tells.
    """
    moves = any(w.home and draft.allocation.get(w.worker_id, w.home) != w.home for w in seen.workers)
    same_fleet = before.allocation.keys() == {w.worker_id for w in seen.workers}
    same_course = draft.strategy == before.strategy and draft.memory == json.loads(before.memory)
    same_admission = admitted(draft.admission) == admitted(before.admission)
    return moves and same_fleet and same_course and same_admission

"""Makes the proposal to publish from a policy's: the rules of a deployment for every policy, in one order.

A small share of first levels is drawn evenly (`with_exploration`), so that the past can answer for other plans
(`analysis/off_policy.py`): many routes send everything one way, and history then has no example of any other. Source:
epsilon-greedy logging as in Bottou et al., Counterfactual reasoning and learning systems, section 4.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal, Policy
from planner.control.shedding import with_admission
from planner.observation.observation import Observation
from schemas.messages import Route


class Rules(NamedTuple):
    """The rules that hold for every policy."""

    sheds: bool = True  # what no worker has time for is turned away by tier; else it expires at its deadline
    explore: float = 0.0  # share of first levels drawn evenly, [0, 1]
    dispatch: str = ""  # instead of the policy's; "": as it says


def propose(
    policy: Policy,
    seen: Observation,
    catalog: Catalog,
    memory: Mapping[str, Any],
    parameters: Mapping[str, float],
    rules: Rules,
) -> PlanProposal:
    """The policy's proposal under the rules. Raises whatever the policy raises, such as Unknown for a parameter."""
    proposal = policy(seen, catalog, memory, parameters)
    if rules.dispatch:
        proposal = replace(proposal, dispatch=rules.dispatch)
    return with_admission_by(with_exploration(proposal, rules.explore), seen, catalog, rules)


def with_exploration(proposal: PlanProposal, share: float) -> PlanProposal:
    """The proposal with `share` in [0, 1] of each route spread evenly over the levels that workers serve.

    Levels that the plan gives no worker are never explored, and a level it routes to keeps 1 - share of its part.
    """
    served = sorted(set(proposal.allocation.values()))
    if not share or not served:
        return proposal
    return replace(proposal, routes=tuple(_mixed(route, served, share) for route in proposal.routes))


def _mixed(route: Route, served: list[str], share: float) -> Route:
    levels = {name: (1 - share) * odds for name, odds in route.levels.items()}
    for name in served:
        levels[name] = levels.get(name, 0.0) + share / len(served)
    return replace(route, levels=levels)


def with_admission_by(proposal: PlanProposal, seen: Observation, catalog: Catalog, rules: Rules) -> PlanProposal:
    """A proposal that is there already, such as an earlier plan's: its routes stay, who is admitted is decided anew."""
    return with_admission(proposal, seen, catalog) if rules.sheds else proposal

"""Makes the proposal to publish from a policy's: the rules of a deployment for every policy, in one order.

The forecast is the policy's own unless the rules name another, so that policies see the demand as their papers do.

A small share of first levels is drawn evenly (`with_exploration`), so that the past can answer for other plans
(`analysis/off_policy.py`): many routes send everything one way, and history then has no example of any other. Source:
epsilon-greedy logging as in Bottou et al., Counterfactual reasoning and learning systems, section 4.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from planner.catalog.model import Catalog
from planner.control.promised import promising, with_promise
from planner.control.proposal import ALWAYS, BY_POLICY, PlanProposal, Policy, PolicyTerms, terms_of
from planner.control.reservation import with_reserved
from planner.control.residency import with_residency
from planner.control.shedding import with_admission
from planner.control.wording.evidence import with_evidence
from planner.observation.forecast import HORIZON_S, with_forecast
from planner.observation.observation import Observation
from planner.scaling.fleet import ScaleRules, Staffing, with_staffing
from schemas.messages import Route

NO_SCALING = ScaleRules()


class Rules(NamedTuple):
    """The rules that hold for every policy, and whether its own terms hold."""

    sheds: bool = True  # demand beyond the workers' capacity is rejected by tier; else it expires at its deadline
    explore: float = 0.0  # share of first levels drawn evenly, [0, 1]
    dispatch: str = ""  # instead of the policy's; "": as it says
    forecast: str = BY_POLICY  # of the demand, by its name in `planner.observation.forecast`
    horizon_s: int = HORIZON_S  # that is forecast: until the next plan
    scale: ScaleRules = NO_SCALING  # of a fleet that is scaled
    hysteresis: str = BY_POLICY  # whether a proposal that moves workers must be worth its cost: ALWAYS, NEVER
    quality_at_least: float = 0.0  # share right that is promised of what discriminators keep; 0: none


def propose(
    policy: Policy,
    seen: Observation,
    catalog: Catalog,
    memory: Mapping[str, Any],
    parameters: Mapping[str, float],
    rules: Rules,
    staffing: Staffing | None = None,
) -> PlanProposal:
    """The policy's proposal under the rules. Raises whatever the policy raises, such as Unknown for a parameter.

    `staffing`: the workers' variants in a fleet that is scaled; None if it is not.
    """
    seen = with_forecast_of(terms_of(policy), seen, rules)
    offered = promising(catalog, rules.quality_at_least)

    def plan_for(seen: Observation) -> PlanProposal:
        proposal = policy(seen, offered, memory, parameters)
        if rules.dispatch:
            proposal = replace(proposal, dispatch=rules.dispatch)
        return with_exploration(proposal, rules.explore)

    admit = partial(with_admission_by, catalog=catalog, rules=rules)
    if staffing is None:
        proposal = with_reserved(plan_for, seen, catalog, admit, holds=terms_of(policy).holds)
    else:
        proposal = with_staffing(admit(plan_for(staffing.seen), staffing.seen), staffing)
    proposal = with_promise(with_evidence(proposal, catalog), offered, rules.quality_at_least)
    return with_residency(proposal, seen, catalog)


def with_forecast_of(terms: PolicyTerms, seen: Observation, rules: Rules) -> Observation:
    """Return the observation as a policy on these terms plans for it: with its forecast, or the one of the rules.

    One that has a forecast already, or no arrivals by second to make one of, is returned as it is.
    """
    kind = terms.forecast if rules.forecast == BY_POLICY else rules.forecast
    return with_forecast(seen, kind, rules.horizon_s)


def must_pay(terms: PolicyTerms, rules: Rules) -> bool:
    """Whether a proposal of a policy on these terms that moves workers must be worth its cost."""
    return terms.hysteresis if rules.hysteresis == BY_POLICY else rules.hysteresis == ALWAYS


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

"""`pac`: ARGUS without the classifier: the same levels and strategies, but which prompt goes where is left to chance.

Source: ARGUS 5.1, "PAC - Prompt-Agnostic-ARGUS", which "randomly routes prompts to workers" as Proteus does; `even=0`:
shares follow capacity, as its Eq. 1 has them. On reuse levels each worker serves all of them, by Eq. 1.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import BY_PERIOD, Parameter, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.solvers.levels import drafting
from planner.solvers.levels.level_mix import evenly, expected_of, offers_of, routes_of

EVEN = Parameter(1, 0, 1, is_whole=True)  # 0: routed by capacity, not 1/N to each worker


@on_terms(BY_PERIOD)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Levels by the demand, one route for all. Parameters: even, and those of `planner.solvers.levels.drafting`."""
    settings = validate_parameters(parameters, drafting.PARAMETERS | {"even": EVEN})
    others = {name: value for name, value in parameters.items() if name != "even"}
    proposal = drafting.draft(observation, catalog, memory, others, is_blind=True)
    is_settled = proposal.strategy == "models" and "to_go" not in proposal.memory  # no wave of workers is on its way
    if not is_settled or not settings["even"]:
        return proposal
    offers, counts = offers_of(catalog, proposal.batch), Counter(proposal.allocation.values())
    mix = evenly(counts, offers)
    return replace(
        proposal,
        routes=routes_of(mix, offers, catalog, "models", None)[0],
        expected=expected_of(mix, offers, catalog, observation.planning_rps),
    )

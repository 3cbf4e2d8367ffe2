"""`pac`: ARGUS without the classifier: the same levels and strategies, but which prompt goes where is left to chance.

Source: ARGUS 5.1, "PAC - Prompt-Agnostic-ARGUS".
"""

from collections.abc import Mapping
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import AS_PUBLISHED, PlanProposal, on_terms
from planner.observation.observation import Observation
from planner.solvers.levels import drafting


@on_terms(AS_PUBLISHED)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Levels by the demand, one route for all. Parameters: those of `planner.solvers.levels.drafting`."""
    return drafting.draft(observation, catalog, memory, parameters, is_blind=True)

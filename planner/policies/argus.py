"""`argus`: as many workers on each level as give the best images at the demand, hard prompts to the better levels.

Source: ARGUS 4.2-4.6: Eq. 1, class histogram, PASM by ODA, both strategies and the switch between them. As published a
reuse level takes the nearest neighbour, whatever it shows; `guarded=1` adds floors, guard and check. We differ: a level
counts its misses, PASM is exact where ODA is not, prompts without a class are spread blindly, and a demand that does
not fit is reported.
"""

from collections.abc import Mapping
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import BY_PERIOD, PlanProposal, on_terms
from planner.observation.observation import Observation
from planner.solvers.levels import drafting


@on_terms(BY_PERIOD)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Levels by the demand, routes by class. Parameters: those of `planner.solvers.levels.drafting`."""
    return drafting.draft(observation, catalog, memory, parameters, is_blind=False)

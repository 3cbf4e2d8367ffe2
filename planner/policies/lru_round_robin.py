"""`lru-round-robin`: `mlora` without its view of components: jobs in turn, and workers hold what they used last.

Source: MLoRA 7.1, the baseline of its comparison: LRU in several tiers, and "enhanced round-robin". Levels and workers
are those of `mlora`, so that runs of both differ by components and dispatch alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import BY_PERIOD, PlanProposal, on_terms
from planner.observation.observation import Observation
from planner.policies import mlora


@on_terms(BY_PERIOD)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Push to each worker in turn, and place nothing. Parameters: overprovision, batch."""
    placed = mlora.plan(observation, catalog, memory, parameters)
    return replace(placed, dispatch="round-robin", places_components=False)

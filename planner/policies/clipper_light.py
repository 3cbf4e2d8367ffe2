"""`clipper-light`: every request on the cheapest variant. Source: Clipper's throughput end (ARGUS 5.1, DiffServe T. 1).

The batch size follows Clipper's AIMD (`planner.solvers.levels.shares`); the papers' own baselines fix 1
(SOURCES.md 1).
"""

from collections.abc import Mapping
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import AS_PUBLISHED, PlanProposal, on_terms
from planner.observation.observation import Observation
from planner.solvers.levels.shares import on


@on_terms(AS_PUBLISHED)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Put all workers on the variant with the shortest call. Parameters: batch, objective."""
    return on(catalog.cheapest(), observation, catalog, memory, parameters)

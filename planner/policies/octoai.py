"""`octoai`: every request on one variant, workers pull, and come and go with the requests in flight. Source: OctoAI.

The post, "Stable Diffusion at scale" (2023), has one model an endpoint and no levels: requests wait in one queue, of
which an idle worker takes the next ("pull"-based routing), and the number of workers follows the logical utilisation
(automatic scaling, `planner/scaling`) with a warm pool. Variants that requests name are scaled by themselves.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import AS_PUBLISHED, BATCH, Parameter, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.solvers.levels.shares import on

PARAMETERS = {
    "best": Parameter(1, 0, 1, is_whole=True),  # 1: the variant of the highest quality serves; 0: the cheapest
    "batch": BATCH,  # most jobs at once: "one or few" a GPU
}


@on_terms(AS_PUBLISHED._replace(scales=True))
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Put all workers that scaling gives it on one variant, and let them pull. Parameters: best, batch."""
    settings = validate_parameters(parameters, PARAMETERS)
    variant = catalog.best() if settings["best"] else catalog.cheapest()
    return replace(on(variant, observation, catalog, memory, {"batch": settings["batch"]}), dispatch="pull")

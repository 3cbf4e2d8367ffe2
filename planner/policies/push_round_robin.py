"""`push-round-robin`: `octoai` with its first implementation's routing, a load balancer that pushes in turn.

Source: OctoAI, "Stable Diffusion at scale" (2023), request routing: "either round robin or randomly assigned inference
to workers", which skews the load. All else is `octoai`, so that runs of both differ by the routing alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import AS_PUBLISHED, Parameter, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.policies import octoai

PARAMETERS = octoai.PARAMETERS | {"random": Parameter(0, 0, 1, is_whole=True)}  # 1: a worker by chance, not in turn


@on_terms(AS_PUBLISHED._replace(scales=True))
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Put all workers that scaling gives it on one variant, and push to them. Parameters: best, batch, random."""
    settings = validate_parameters(parameters, PARAMETERS)
    own = {name: value for name, value in settings.items() if name != "random"}
    pulled = octoai.plan(observation, catalog, memory, own)
    return replace(pulled, dispatch="random" if settings["random"] else "round-robin")

"""`mlora`: plans say which components each worker holds, and a job goes where it costs least, loads included.

Source: MLoRA 6: one view of all components (`planner/control/residency.py`: hot ones on several devices, warm ones
loaded ahead, frequent combinations fused) and a router that weighs queues against cache locality. The paper has no
levels: for a catalog with several, workers and shares are those of the integer program of `proteus`, by capacity.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import BATCH, BY_PERIOD, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.policies import proteus

PARAMETERS = {
    "overprovision": proteus.PARAMETERS["overprovision"],
    "batch": BATCH,  # most jobs at once; those with unlike components do not share a call
}


@on_terms(BY_PERIOD)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Place components, and dispatch by cost. Parameters: overprovision, batch."""
    settings = validate_parameters(parameters, PARAMETERS)
    levels = proteus.plan(observation, catalog, memory, settings | {"even": 0})
    return replace(levels, dispatch="least-cost", places_components=True)

"""All requests on one variant, all workers with it: what Clipper does with one model. Not a policy by itself."""

from collections.abc import Mapping
from typing import Any

from planner.catalog.parse import Catalog, Variant, run_ms
from planner.control.allocation import assign
from planner.control.format import counted
from planner.control.proposal import Draft, Parameter, settle
from planner.observation.observation import Observation
from planner.solvers.aimd import MEMORY, tuned
from planner.solvers.levels.shares import Flow, constant, expected

BACKED_OFF = 0.9  # of a batch that took too long. Source: Clipper (NSDI 2017), dynamic batch size: a tenth less

PARAMETERS = {
    "batch": Parameter(0, 0, 1024, is_whole=True),  # most jobs at once; 0: by AIMD. DiffServe's baselines fix 1
    "objective": Parameter(0.5, 0.01, 1),  # of the SLO, what a batch may take; the rest is for waiting. Ours
}


def on(
    variant: Variant,
    observation: Observation,
    catalog: Catalog,
    memory: Mapping[str, Any],
    parameters: Mapping[str, float],
) -> Draft:
    """The draft that paints everything on `variant`. Parameters: PARAMETERS."""
    settings = settle(parameters, PARAMETERS)
    objective_ms = settings["objective"] * observation.slo_ms

    def is_late(_: str, size: int) -> bool:
        """By the profile, as a single batch's time is not observed; without an SLO none is too long."""
        return 0 < objective_ms < run_ms(variant, size)

    sizes = tuned([variant.name], catalog, observation, memory, is_late, BACKED_OFF)
    batch = int(settings["batch"]) or sizes[variant.name]
    shares, counts = {variant.name: 1.0}, {variant.name: len(observation.workers)}
    flow = Flow(painted=shares, kept=shares, heavy=catalog.best().name)
    return Draft(
        routes=constant(shares),
        allocation=assign(counts, observation.workers),
        batch={variant.name: batch},
        expected=expected(flow, counts, catalog, batch, observation.demand_rps),
        reason=f"everything on {variant.name}, {counted(len(observation.workers), 'worker')}, batch {batch}",
        memory={} if settings["batch"] else {MEMORY: sizes},
    )

"""All requests on one variant, all workers with it: what Clipper does with one model. Not a policy by itself."""

from collections.abc import Mapping

from planner.allocation import assign
from planner.catalog import Catalog, Variant
from planner.observation import Observation
from planner.policies.draft import Draft
from planner.policies.parameters import BATCH, settle
from planner.policies.shares import Flow, constant, expected

PARAMETERS = {"batch": BATCH}


def on(variant: Variant, observation: Observation, catalog: Catalog, parameters: Mapping[str, float]) -> Draft:
    """The draft that paints everything on `variant`."""
    batch = int(settle(parameters, PARAMETERS)["batch"])
    shares, counts = {variant.name: 1.0}, {variant.name: len(observation.workers)}
    flow = Flow(painted=shares, kept=shares, heavy=catalog.best().name)
    return Draft(
        routes=constant(shares),
        allocation=assign(counts, observation.workers),
        batch={variant.name: batch},
        expected=expected(flow, counts, catalog, batch, observation.demand_rps),
        reason=f"everything on {variant.name}, {len(observation.workers)} workers",
    )

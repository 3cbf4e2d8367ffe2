"""`proteus`: the workers' variants that give the highest accuracy at the demand, prompts spread blindly over workers.

Source: Proteus's MILP as ARGUS 5.1, DiffServe T. 1 and HADIS 4.1 run it: variants only, blind, over-provisioned by
beta, batches of the largest of 1, 2, 4, 8 that takes less than half the SLO, of those that the catalog measured, and
every worker with equal probability (SOURCES.md 1, 3.9). We differ: an optimum, not a gap of 50 %; a demand that does
not fit is said at once instead of lowering beta step by step. `even=0`: shares follow capacity, as its program has it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog
from planner.control.allocation import assign
from planner.control.proposal import BATCH, BY_PERIOD, Parameter, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.solvers.levels.level_mix import (
    describe_mix,
    evenly,
    expected_of,
    fill,
    maximize_quality,
    offers_of,
    routes_of,
)

PARAMETERS = {
    "overprovision": Parameter(1.05, 0.01, 100),  # beta. Source: Proteus, SOURCES.md 1
    "batch": BATCH,  # of all variants; where it is not given and there is an SLO, by its rule
    "even": Parameter(1, 0, 1, is_whole=True),  # 0: routed by capacity, not 1/N to each worker
}
BATCHES = (8, 4, 2)


@on_terms(BY_PERIOD)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Variants by the demand, one route for all. Parameters: overprovision, batch, even."""
    del memory  # each plan is solved anew
    settings = validate_parameters(parameters, PARAMETERS)
    is_free = "batch" not in parameters and observation.slo_ms > 0
    batches = {
        name: _largest_batch(variant, observation.slo_ms) if is_free else int(settings["batch"])
        for name, variant in catalog.variants.items()
    }
    demand_rps = settings["overprovision"] * observation.planning_rps
    offers = offers_of(catalog, batches)
    mix = maximize_quality(offers, len(observation.workers), demand_rps)
    served = evenly(mix.counts, offers) if settings["even"] else mix
    return PlanProposal(
        routes=routes_of(served, offers, catalog, "models", None)[0],
        allocation=assign(mix.counts, observation.workers),
        batch=batches,
        expected=expected_of(served, offers, catalog, observation.planning_rps),
        reason=describe_mix(mix, offers, demand_rps),
    )


def by_capacity(plan: PlanProposal, catalog: Catalog, demand_rps: float) -> PlanProposal:
    """Return a blind plan with the best shares of levels that its workers can carry; another strategy's as it is."""
    if plan.strategy != "models":
        return plan
    offers = offers_of(catalog, plan.batch)
    mix = fill(Counter(plan.allocation.values()), offers, demand_rps)
    return replace(plan, routes=routes_of(mix, offers, catalog, "models", None)[0])


def _largest_batch(variant: Variant, slo_ms: float) -> int:
    """The other half of the SLO is for waiting: all the queue that Proteus models. Only measured sizes count."""
    measured = (batch for batch in BATCHES if batch in variant.latency_ms)
    return next((batch for batch in measured if run_ms(variant, batch) < slo_ms / 2), 1)

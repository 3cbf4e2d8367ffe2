"""`nirvana`: the best variant on every worker, each prompt begun from the most similar past image at any load.

Source: NIRVANA as ARGUS 5.1 extends it: one replica a worker, load spread evenly. Which reuse step a prompt gets
follows from its similarity alone, which a plan does not know: its routes hold the shares that similarities are expected
to give. For `plan solve` and simulation: a live worker would need each request's own step.
"""

from collections.abc import Mapping
from typing import Any

from planner.catalog.model import Catalog
from planner.control.allocation import assign
from planner.control.format import counted
from planner.control.proposal import BATCH, Parameter, PlanProposal, validate_parameters
from planner.observation.observation import Observation
from planner.solvers.levels.level_mix import Mix, Offer, expected_of, offers_of, reuse_offers, routes_of

PARAMETERS = {
    "batch": BATCH,
    "similar_share": Parameter(0.5, 0, 1),  # of prompts with a past one similar enough; an assumption: set your own
}


def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Put all workers on one variant, similar prompts evenly on its reuse levels. Parameters: batch, similar_share."""
    del memory  # constant in time
    settings = validate_parameters(parameters, PARAMETERS)
    best, batch, n_workers = catalog.best().name, int(settings["batch"]), len(observation.workers)
    reuse = reuse_offers(catalog, batch)
    offers = reuse or tuple(o for o in offers_of(catalog, {best: batch}) if o.level == best)
    base = offers[0].variant
    mix = Mix({base: n_workers}, _shares(offers, settings["similar_share"]), 1.0)
    strategy = "reuse" if reuse else "models"
    begun = (
        f"{settings['similar_share']:.0%} of prompts begun from a similar image"
        if reuse
        else "the catalog has no reuse levels to route to, so every image is begun from noise"
    )
    return PlanProposal(
        strategy=strategy,
        routes=routes_of(mix, offers, catalog, strategy, None)[0],
        allocation=assign(mix.counts, observation.workers),
        batch={base: batch},
        expected=expected_of(mix, offers, catalog, observation.planning_rps),
        reason=f"everything on {base}, {counted(n_workers, 'worker')}; {begun}",
    )


def _shares(offers: tuple[Offer, ...], similar: float) -> dict[str, float]:
    full, others = offers[0], offers[1:]
    if not others or similar == 0:
        return {full.level: 1.0}
    rest = {full.level: 1 - similar} if similar < 1 else {}
    return rest | {offer.level: similar / len(others) for offer in others}

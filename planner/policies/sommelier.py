"""`sommelier`: each worker takes the best variant that keeps up with its own load, without a plan for all workers.

Source: ARGUS 5.1: Sommelier "assesses the workload for each GPU" and "recommends alternative models based on the
single-server workload". A worker's workload is an even part of the arrivals here; ARGUS gives no rule. `drain_s` counts
what it has queued, too, which is ours.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from planner.catalog.model import Catalog
from planner.control.proposal import BATCH, BY_PERIOD, Parameter, PlanProposal, on_terms, validate_parameters
from planner.control.wording.format import rate
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.solvers.levels.level_mix import Offer, evenly, expected_of, offers_of, routes_of

PARAMETERS = {
    "overprovision": Parameter(1.05, 0.01, 100),
    "batch": BATCH,
    "drain_s": Parameter(0, 0, 3600),  # within which a worker means to have done what it has queued; 0: it does not ask
}


@on_terms(BY_PERIOD)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Requests evenly over the workers, a variant for each. Parameters: overprovision, batch, drain_s."""
    del memory  # a worker's load is all it knows
    settings = validate_parameters(parameters, PARAMETERS)
    batch, workers = int(settings["batch"]), observation.workers
    offers = offers_of(catalog, dict.fromkeys(catalog.variants, batch))
    own_rps = settings["overprovision"] * observation.planning_rps / max(1, len(workers))
    chosen = {w.worker_id: choose(w, own_rps, offers, 1000 * settings["drain_s"]) for w in workers}
    mix = evenly(Counter(chosen.values()), offers)
    return PlanProposal(
        routes=routes_of(mix, offers, catalog, "models", None)[0],
        allocation=chosen,
        batch=dict.fromkeys(catalog.variants, batch),
        expected=expected_of(mix, offers, catalog, observation.planning_rps),
        reason=f"each worker has the best level that {rate(own_rps, 'requests')} and its queue allow",
    )


def choose(worker: WorkerView, own_rps: float, offers: Sequence[Offer], drain_ms: float) -> str:
    """The variant of the highest quality that keeps up with `own_rps` in the time its queue leaves; else the fastest.

    The queue's time is that of the variant it was queued for: a worker that changes does not take its jobs along.
    """
    idle = max(0.0, 1 - worker.remaining_ms / drain_ms) if drain_ms > 0 else 1.0
    enough = [offer for offer in offers if own_rps <= idle * offer.rps]
    return max(enough, key=lambda offer: (offer.quality, offer.rps)).variant if enough else offers[-1].variant

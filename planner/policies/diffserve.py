"""`diffserve`: everything light first, doubtful images again on heavy; the highest threshold that the workers carry.

Source: DiffServe 3.3, Eqs. 1-5: max t over x1, x2, b1, b2 and t. We differ: demand is the arrival rate and waits are in
seconds (its artifact counts requests in flight, SOURCES.md 3.1, 3.2); t is one that f was measured at, or between
two such where they are few, and the reason says so; the discriminator takes time; where nothing fits, t falls to 0,
then all workers generate light, and the share that even they cannot is stated. Its queueing delay "twice the execution"
is `queue_factor`: 1 as in Proteus, where both are within half the SLO, 2 as DiffServe 4.5 words it, under which its own
SLO holds no batch of SDv1.5.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planner.catalog.model import Catalog, Pair
from planner.control.proposal import AS_PUBLISHED, Parameter, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.observation.run_times import as_served
from planner.solvers.aimd import MEMORY, tuned
from planner.solvers.two_stage.explain import reason
from planner.solvers.two_stage.problem import Row, is_measured, threshold_rows
from planner.solvers.two_stage.solve import Offer, Setup, draft, planned, problem_of

OPTIMISED = -1.0  # in place of a fixed threshold
HALVED = 0.5  # ours

PARAMETERS = {
    "overprovision": Parameter(1.05, 0.01, 100),  # lambda. Source: DiffServe 3.3
    "threshold": Parameter(OPTIMISED, -1, 1),  # below 0: optimised; else static, all but it optimised (DiffServe 4.5)
    "batch": Parameter(0, 0, 1024, is_whole=True),  # 0: optimised; else this one on both levels
    "aimd": Parameter(0, 0, 1, is_whole=True),  # 1: batches by AIMD in place of Eq. 1 (DiffServe 4.5)
    "queue_factor": Parameter(-1, -1, 100),  # below 0: Little's law; else the wait is this many run times
    "learns": Parameter(1, 0, 1, is_whole=True),  # f(t) as served (DiffServe 3.3); 0: as profiled
    "profiles": Parameter(1, 0, 1, is_whole=True),  # run times as served (DiffServe 3.1); 0: as profiled
}


@on_terms(AS_PUBLISHED._replace(learns=True))
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Plan the catalog's first pair at its highest threshold. Parameters: PARAMETERS and paint_over_step."""
    offered = catalog.pair()
    most_steps = catalog.level(offered.heavy).steps - 1
    step = Parameter(offered.refine_from_step, 0, most_steps, is_whole=True)
    settings = validate_parameters(parameters, PARAMETERS | {"paint_over_step": step})
    catalog = as_served(catalog, observation.run_times) if settings["profiles"] else catalog
    observation = observation if settings["learns"] else replace(observation, deferral=())
    pair = offered._replace(refine_from_step=int(settings["paint_over_step"]))
    batches = _batches(pair, observation, catalog, memory, settings)
    setup = Setup(settings["overprovision"], settings["queue_factor"], batches=batches)
    seen = replace(observation, slo_ms=0.0) if settings["aimd"] else observation  # batches follow timeouts, not Eq. 1
    rows, static = threshold_rows(catalog, pair, observation), settings["threshold"]
    wanted = [row for row in rows if static < 0 or row.threshold <= static]  # one that does not fit gives way downwards
    offers = [Offer(pair, problem_of(pair, wanted, seen, catalog, setup))]
    found = planned(offers, observation)
    words = reason(found, offers, observation.planning_rps, _describe)
    if not is_measured(catalog, found.pair, found.answer.row.threshold):
        words = f"a threshold of {found.answer.row.threshold:.3g} lies between measured ones; {words}"
    return draft(found, observation, words, {MEMORY: batches} if settings["aimd"] else None)


def _batches(
    pair: Pair, seen: Observation, catalog: Catalog, memory: Mapping[str, Any], settings: Mapping[str, float]
) -> dict[str, int] | None:
    """Return the one batch size of each level where it is not optimised.

    AIMD: half of it after a window with a late answer, DiffServe 4.5's "SLO timeout"; it gives no constants.
    """
    if settings["batch"]:
        return dict.fromkeys((pair.light, pair.heavy), int(settings["batch"]))
    if not settings["aimd"]:
        return None
    is_late = seen.served.in_time is not None and seen.served.in_time < 1
    return tuned((pair.light, pair.heavy), catalog, seen, memory, lambda *_: is_late, HALVED)


def _describe(_: Pair, row: Row) -> str:
    return f"a threshold of {row.threshold:.3g}"

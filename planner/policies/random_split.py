"""`random-split`: a fixed share of requests goes to the heavy level whatever the prompt: the baseline of every report.

Source: DiffServe 2.2 (Random), HADIS's random repeats: hard to beat at equal heavy share (SOURCES.md 3.7, 3.8).
"""

from collections.abc import Mapping
from typing import Any

from planner.catalog.model import Catalog
from planner.control.allocation import assign, split
from planner.control.proposal import AS_PUBLISHED, BATCH, Parameter, PlanProposal, on_terms, validate_parameters
from planner.observation.observation import Observation
from planner.solvers.levels.shares import Flow, constant, expected, work_of

PARAMETERS = {"heavy_share": Parameter(0.5, 0, 1), "batch": BATCH}


@on_terms(AS_PUBLISHED)
def plan(
    observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
) -> PlanProposal:
    """Cheapest and best variant at `heavy_share`, workers in proportion to the work. Parameters: heavy_share, batch."""
    del memory  # constant in time
    settings = validate_parameters(parameters, PARAMETERS)
    share, batch, n_workers = settings["heavy_share"], int(settings["batch"]), len(observation.workers)
    wanted = _wanted(catalog.cheapest().name, catalog.best().name, share)
    shares = _servable(wanted, n_workers)
    flow = Flow(generated=shares, kept=shares, heavy=catalog.best().name)
    counts = split(work_of(flow, catalog, batch), n_workers)
    short = "" if shares == wanted else "one worker cannot serve both levels"
    return PlanProposal(
        routes=constant(shares),
        allocation=assign(counts, observation.workers),
        batch=dict.fromkeys(shares, batch),
        expected=expected(flow, counts, catalog, batch, observation.demand_rps),
        reason=short,
    )


def _wanted(light: str, heavy: str, share: float) -> dict[str, float]:
    return {light: 1 - share, heavy: share} if light != heavy else {light: 1.0}


def _servable(shares: Mapping[str, float], n_workers: int) -> dict[str, float]:
    levels = [level for level, share in shares.items() if share > 0]
    return {levels[0]: 1.0} if 0 < n_workers < len(levels) else dict(shares)

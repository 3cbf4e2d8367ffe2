"""Work, routes and expectation of the policies with fixed shares of requests per level.

`on` is all requests on one variant, all workers with it: what Clipper does with one model. Not a policy by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog
from planner.catalog.quality import random_quality
from planner.control.allocation import assign, busiest
from planner.control.proposal import Parameter, PlanProposal, validate_parameters
from planner.observation.observation import Observation
from planner.solvers.aimd import MEMORY, tuned
from schemas.messages import Expected, Route

BACKED_OFF = 0.9  # of a batch that took too long. Source: Clipper (NSDI 2017), dynamic batch size: a tenth less

PARAMETERS = {
    "batch": Parameter(0, 0, 1024, is_whole=True),  # most jobs at once; 0: by AIMD. DiffServe's baselines fix 1
    # Of the SLO, what a batch may take. Source: Clipper (NSDI 2017) 4.3.1, all of it; less leaves the rest for waiting
    "objective": Parameter(1.0, 0.01, 1),
}


@dataclass(frozen=True)
class Flow:
    """Shares of requests; generated and kept differ in a cascade."""

    generated: dict[str, float]  # level -> share of requests it generates
    kept: dict[str, float]  # level -> share of requests answered with its image
    heavy: str  # the level whose kept share is the plan's heavy share
    quality: float | None = (
        None  # of the answers where more than their shares determine it: a cascade's; None: by chance
    )
    refine_from: dict[str, int] = field(default_factory=dict)  # level -> its steps skipped, as it refines drafts


def work_of(flow: Flow, catalog: Catalog, batch: int) -> dict[str, float]:
    """level -> worker milliseconds per request, from the share of requests generated on each level."""
    return {
        level: share * run_ms(catalog.level(level), batch, flow.refine_from.get(level, 0)) / batch
        for level, share in flow.generated.items()
    }


def constant(shares: Mapping[str, float]) -> tuple[Route, ...]:
    """Return one route for all requests; levels without a share are left out."""
    return (Route(levels={level: share for level, share in shares.items() if share > 0}),)


def expected(flow: Flow, counts: Mapping[str, int], catalog: Catalog, batch: int, demand_rps: float) -> Expected:
    """Return the expectation of a plan, at the demand now seen.

    Without a cascade `quality` is what a random split at these shares would reach (SOURCES.md 3.8).
    """
    busy = {level: demand_rps * ms / 1000 for level, ms in work_of(flow, catalog, batch).items()}
    return Expected(
        demand_rps=demand_rps,
        utilization=busiest(busy, counts),
        heavy_share=flow.kept.get(flow.heavy, 0.0),
        quality=random_quality(catalog, flow.kept) if flow.quality is None else flow.quality,
    )


def on(
    variant: Variant,
    observation: Observation,
    catalog: Catalog,
    memory: Mapping[str, Any],
    parameters: Mapping[str, float],
) -> PlanProposal:
    """The draft that generates everything on `variant`. Parameters: PARAMETERS."""
    settings = validate_parameters(parameters, PARAMETERS)
    objective_ms = settings["objective"] * observation.slo_ms

    def is_late(_: str, size: int) -> bool:
        """Whether a batch is too long by the profile, as a single batch is not observed; without an SLO none is."""
        return 0 < objective_ms < run_ms(variant, size)

    sizes = tuned([variant.name], catalog, observation, memory, is_late, BACKED_OFF)
    batch = int(settings["batch"]) or sizes[variant.name]
    shares, counts = {variant.name: 1.0}, {variant.name: len(observation.workers)}
    flow = Flow(generated=shares, kept=shares, heavy=catalog.best().name)
    return PlanProposal(
        routes=constant(shares),
        allocation=assign(counts, observation.workers),
        batch={variant.name: batch},
        expected=expected(flow, counts, catalog, batch, observation.demand_rps),
        reason=f"a call generates up to {batch} images" if batch > 1 else "",
        memory={} if settings["batch"] else {MEMORY: sizes},
    )

"""What the policies with fixed shares of requests per level have in common: work, routes, expectation."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.catalog.entries import run_ms
from planner.catalog.parse import Catalog
from planner.catalog.quality import random_quality
from planner.control.allocation import busiest
from schemas.messages import Expected, Route


@dataclass(frozen=True)
class Flow:
    """Shares of requests; painted and kept differ in a cascade."""

    painted: dict[str, float]  # level -> share of requests it paints
    kept: dict[str, float]  # level -> share of requests answered with its picture
    heavy: str  # the level whose kept share is the plan's heavy share
    quality: float | None = None  # of the answers where more than their shares tells it: a cascade's; None: by chance
    paint_over: dict[str, int] = field(default_factory=dict)  # level -> its steps skipped, as it paints over drafts


def work_of(flow: Flow, catalog: Catalog, batch: int) -> dict[str, float]:
    """level -> worker milliseconds per request, from the share of requests painted on each level."""
    return {
        level: share * run_ms(catalog.level(level), batch, flow.paint_over.get(level, 0)) / batch
        for level, share in flow.painted.items()
    }


def constant(shares: Mapping[str, float]) -> tuple[Route, ...]:
    """One route for all requests; levels without a share are not named."""
    return (Route(levels={level: share for level, share in shares.items() if share > 0}),)


def expected(flow: Flow, counts: Mapping[str, int], catalog: Catalog, batch: int, demand_rps: float) -> Expected:
    """What to hold the outcome against, at the demand now seen.

    Without a cascade `quality` is what a random split at these shares would reach (facts/peers.md 0.8).
    """
    busy = {level: demand_rps * ms / 1000 for level, ms in work_of(flow, catalog, batch).items()}
    return Expected(
        demand_rps=demand_rps,
        utilization=busiest(busy, counts),
        heavy_share=flow.kept.get(flow.heavy, 0.0),
        quality=random_quality(catalog, flow.kept) if flow.quality is None else flow.quality,
    )

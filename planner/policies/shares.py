"""What the policies with fixed shares of requests per level have in common: work, routes, expectation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from planner.catalog import Catalog
from planner.variant import run_ms
from schemas.messages import Expected, Route


@dataclass(frozen=True)
class Flow:
    """Shares of requests; painted and kept differ in a cascade."""

    painted: dict[str, float]  # level -> share of requests it paints
    kept: dict[str, float]  # level -> share of requests answered with its picture
    heavy: str  # the level whose kept share is the plan's heavy share
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

    `utilization` is that of the busiest level, above 1 when it cannot keep up; a level without a worker counts as
    having one, so that the number stays finite. `quality` is what a random split at these shares would reach: a
    discriminator worth its name beats it (facts/peers.md 0.8).
    """
    busy = {level: demand_rps * ms / 1000 for level, ms in work_of(flow, catalog, batch).items()}
    return Expected(
        demand_rps=demand_rps,
        utilization=max(workers / max(1, counts.get(level, 0)) for level, workers in busy.items()),
        heavy_share=flow.kept.get(flow.heavy, 0.0),
        quality=_quality(flow.kept, catalog),
    )


def _quality(kept: Mapping[str, float], catalog: Catalog) -> float | None:
    qualities = [(share, catalog.level(level).quality) for level, share in kept.items()]
    known = [share * quality for share, quality in qualities if quality is not None]
    return math.fsum(known) if len(known) == len(qualities) else None

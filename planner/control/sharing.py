"""Lets workers that are reserved for a level serve other requests too, in the share that they have time for.

This is for policies that do not plan with reserved workers themselves (`PolicyTerms.holds`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from schemas.messages import Expected, Route

MAX_UTILIZATION: Final = 0.8  # of reserved workers: requests come as they come
OF_SLO: Final = 1 / 3  # of the SLO, that a call of a full batch may take

PlanFor = Callable[[Observation], PlanProposal]
Admit = Callable[[PlanProposal, Observation], PlanProposal]


class Spare(NamedTuple):
    """The workers that are reserved for a level."""

    level: str
    workers: tuple[WorkerView, ...]
    busy: float  # workers that requests which name the level keep busy
    batch: int  # that leaves time to wait for the one before
    image_s: float  # of a worker, in a full batch

    @property
    def rps(self) -> float:
        """Return the other requests a second that they have time for."""
        return max(0.0, len(self.workers) * MAX_UTILIZATION - self.busy) / self.image_s


def spare_of(variant: Variant, workers: Sequence[WorkerView], busy: float, slo_ms: float) -> Spare:
    """Return the spare time of a level's workers."""
    batch = max((size for size in variant.latency_ms if run_ms(variant, size) <= OF_SLO * slo_ms), default=1)
    return Spare(variant.name, tuple(workers), busy, batch, run_ms(variant, batch) / batch / 1000)


def with_shares(
    plan_for: PlanFor, admit: Admit, rest: Observation, spares: Sequence[Spare], catalog: Catalog
) -> PlanProposal:
    """Return a proposal for the demand on the levels. `rest`: that demand, and the workers left to the policy.

    The best reserved level takes what it has time for if it is better than the policy's plan without it, else what that
    plan cannot serve; without other workers it takes all. `admit`: says who is let in.
    """
    proposal = plan_for(rest)
    best = max(spares, key=lambda each: catalog.level(each.level).quality or 0.0, default=None)
    share = _share(best, proposal, rest, catalog) if best else 0.0
    if best and share > 0:
        proposal = _mixed(plan_for(scaled(rest, 1 - share)), best, share, rest, catalog)
    placed = {worker.worker_id: spare.level for spare in spares for worker in spare.workers}
    return admit(replace(proposal, allocation=proposal.allocation | placed), rest)


def scaled(seen: Observation, keep: float) -> Observation:
    """Return an observation of this share of the demand."""
    keep = min(1.0, max(0.0, keep))
    counts: np.ndarray = np.diff(np.floor(np.cumsum(seen.counts) * keep + 0.5), prepend=0.0)
    forecast = None if seen.forecast_rps is None else keep * seen.forecast_rps
    return replace(
        seen, demand_rps=keep * seen.demand_rps, forecast_rps=forecast, counts=tuple(int(count) for count in counts)
    )


def _share(best: Spare, plain: PlanProposal, rest: Observation, catalog: Catalog) -> float:
    """Return the share of the requests that the reserved level takes."""
    if not rest.workers:
        return 1.0
    expected, quality = plain.expected, catalog.level(best.level).quality
    most = min(1.0, best.rps / rest.planning_rps) if rest.planning_rps > 0 else 1.0
    known = None if expected is None else expected.quality
    if best.level == catalog.best().name or (quality is not None and known is not None and quality > known):
        return most
    return min(most, 1 - 1 / max(1.0, expected.utilization)) if expected else 0.0


def _mixed(own: PlanProposal, best: Spare, share: float, rest: Observation, catalog: Catalog) -> PlanProposal:
    """Return a policy's proposal for the rest with a share for the reserved level, drawn evenly from all routes."""
    routes = tuple(replace(route, levels=_with(route.levels, best.level, share)) for route in own.routes)
    alone, expected, quality = share >= 1, own.expected, catalog.level(best.level).quality
    if expected is not None:
        mixed = None if quality is None else share * quality
        mixed = mixed if alone or mixed is None or expected.quality is None else mixed + (1 - share) * expected.quality
        busy = (best.busy + share * rest.planning_rps * best.image_s) / len(best.workers)
        expected = Expected(
            demand_rps=expected.demand_rps + share * rest.planning_rps,
            utilization=busy if alone else max(busy, expected.utilization),
            heavy_share=(1 - share) * expected.heavy_share + share * (best.level == catalog.best().name),
            quality=mixed,
        )
    return replace(
        own,
        routes=(Route(levels={best.level: 1.0}),) if alone else routes,
        cascades=() if alone else own.cascades,
        batch=own.batch | ({} if best.level in own.allocation.values() else {best.level: best.batch}),
        reason="" if alone else own.reason,
        expected=expected,
    )


def _with(levels: Mapping[str, float], level: str, share: float) -> dict[str, float]:
    mixed = {name: (1 - share) * given for name, given in levels.items()}
    return mixed | {level: mixed.get(level, 0.0) + share}

"""Whether a new plan is worth its change: what it gains while it holds must pay for the workers that are away.

For every policy: the planner loop asks before it publishes. Source: design, section 5; the terms of a change are those
of facts/joint-plan.md, (drain + load) x demand at risk.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from planner.catalog.parse import Catalog, run_ms
from planner.control.proposal import Draft
from planner.observation.observation import Observation, WorkerView
from schemas.messages import Expected, Plan

LATE = 5.0  # what a late request costs, in spans between the worst and the best quality of a catalog
WEIGHED = 1.0  # what one costs that is served worse, as `planner.solvers.joint` prices its moves
SLIGHT = 2e-3  # spans of quality a request: a gain below it is not worth a record


class Promise(NamedTuple):
    """What a plan is expected to do at the demand now."""

    in_time: float  # share of requests, [0, 1]
    quality: float | None  # of the answers, on the catalog's scale; None: unknown
    utilization: float = 1.0  # of the busiest level's workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """From the plan in force to another."""

    before: Promise | None  # None: there is none, or it cannot go on (`is_broken`)
    after: Promise
    away_s: float  # worker-seconds that nobody serves: `away_s`
    workers: int  # live ones
    hold_s: float  # how long the new plan is expected to hold
    span: float  # between the catalog's worst and best quality, > 0; 0: unknown, then quality does not count
    risk: float = LATE  # what a request costs that a worker who is away would have served, in spans


def worth(change: Change) -> bool:
    """Whether the change pays: gain a request times those of the time it holds against the requests put at risk.

    Both are proportional to the demand, which therefore does not count. A worker that is away takes its share of the
    requests with it, and those that would have found the others busy are late, unless the policy has planned for them:
    then they cost the quality that it reckoned with. A plan for no plan is always worth it.
    """
    if change.before is None:
        return True
    gain = LATE * (change.after.in_time - change.before.in_time) + _better(change.before, change.after, change.span)
    risked_s = change.away_s / max(change.workers, 1) * min(change.before.utilization, 1.0)
    return gain > SLIGHT and gain * change.hold_s > change.risk * risked_s


def change_of(plan: Plan | None, draft: Draft, seen: Observation, catalog: Catalog, hold_s: float) -> Change:
    """The change from the plan in force to a draft, at the demand planned for."""
    expected = plan.expected if plan and not is_broken(plan, seen.workers) else None
    unknown = Expected(demand_rps=0.0, utilization=0.0, heavy_share=0.0)
    return Change(
        before=promised(expected, seen.planning_rps) if expected else None,
        after=promised(draft.expected or unknown, seen.planning_rps if draft.expected else 0.0),
        away_s=away_s(seen.workers, draft.allocation, catalog),
        workers=len(seen.workers),
        hold_s=hold_s,
        span=span_of(catalog),
        risk=WEIGHED if draft.weighs_moves else LATE,
    )


def promised(expected: Expected, demand_rps: float) -> Promise:
    """What a plan's expectation says of another demand: its levels' shares stay, so utilisation grows in proportion.

    Above a utilisation of 1 the rest is late. An expectation of no demand promises nothing above none.
    """
    if demand_rps <= 0:
        return Promise(1.0, expected.quality, 0.0)
    grown = demand_rps / expected.demand_rps if expected.demand_rps > 0 else float("inf")
    utilization = expected.utilization * grown if expected.utilization > 0 else 0.0
    return Promise(min(1.0, 1 / utilization) if utilization > 0 else 1.0, expected.quality, utilization)


def away_s(workers: Iterable[WorkerView], allocation: Mapping[str, str], catalog: Catalog) -> float:
    """Worker-seconds between the last picture on the old variant and the first on the new one, drain and load.

    A worker without a variant is missed by nobody.
    """
    moved = [w for w in workers if w.home in catalog.variants and allocation.get(w.worker_id, w.home) != w.home]
    drain_ms = sum(run_ms(catalog.level(w.home), 1) for w in moved)
    load_ms = sum(catalog.level(allocation[w.worker_id]).load_ms for w in moved)
    return (drain_ms + load_ms) / 1000


def is_broken(plan: Plan, workers: Iterable[WorkerView]) -> bool:
    """Whether a level that the plan sends requests to has no live worker: then any other plan is better."""
    alive = {w.worker_id for w in workers}
    served = {variant for worker_id, variant in plan.allocation.items() if worker_id in alive}
    used = {level for route in plan.routes for level, probability in route.levels.items() if probability > 0}
    used |= {cascade.next_level for cascade in plan.cascades if cascade.level in used and cascade.threshold > 0}
    return not {level.partition("~")[0] for level in used} <= served


def span_of(catalog: Catalog) -> float:
    """Between the worst and the best known quality of a catalog's levels; 0 where fewer than two are known."""
    known = [variant.quality for variant in catalog.variants.values() if variant.quality is not None]
    return max(known) - min(known) if len(known) > 1 else 0.0


def _better(before: Promise, after: Promise, span: float) -> float:
    if before.quality is None or after.quality is None or span <= 0:
        return 0.0
    return (after.quality - before.quality) / span

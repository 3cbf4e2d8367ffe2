"""Decides whether a plan is due before the period is over, and whether a change of plan is worth its cost.

A new proposal must be worth its change (`should_switch`): what it gains while it holds must pay for the workers that
are away, (drain + load) x the demand at risk. That holds for policies that ask for it (`PolicyTerms` in `proposal.py`),
live and simulated, unless they have weighed their moves themselves, as `joint` does. Those of the papers do not ask, as
no paper weighs moves; `planner.hysteresis` says otherwise.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.control.renewal.same_plan import admitted
from planner.observation.observation import Observation
from planner.observation.workers import SERVING, WorkerView
from schemas.messages import Expected, Plan

GROWTH_MS = 1000.0  # by which a worker's backlog must have grown, beyond doubling
MIN_PAUSE_MS = 1000  # between plans that a backlog asks for; workers and pins are never made to wait
LATE = 5.0  # what a late request costs, in spans between the worst and the best quality of a catalog
HOLD_S = 120.0  # how long a plan is expected to hold: what moves must pay in
WEIGHED = 1.0  # what one costs that is served worse, as `planner.solvers.joint` prices its moves
FIRST_PLAN, PERIOD_IS_OVER = "the first plan", "the period is over"
MIN_GAIN = 2e-3  # spans of quality a request: a gain below it is not worth a record


class Signals(NamedTuple):
    """The facts that may call for a new plan."""

    workers: tuple[str, ...]  # the live ones, by id
    pin: tuple[str, ...]  # identifies an operator's order; (): there is none
    backlog_ms: float  # work waiting a live worker
    unserved: tuple[str, ...] = ()  # variants that requests wait for, and that have no worker; "": any level
    idle: tuple[str, ...] = ()  # variants with a reserved worker that nothing waits for any more


def signals_of(
    workers: Sequence[WorkerView],
    pin: tuple[str, ...] = (),
    unserved: tuple[str, ...] = (),
    idle: tuple[str, ...] = (),
) -> Signals:
    """The signals of the live workers, an operator's order, and of requests that no worker will serve."""
    backlog_ms = sum(worker.remaining_ms for worker in workers) / len(workers) if workers else 0.0
    return Signals(tuple(worker.worker_id for worker in workers), pin, backlog_ms, unserved, idle)


def why_now(before: Signals | None, now: Signals, since_ms: float, period_ms: int) -> str:
    """Why a plan is due, in words; "" if it is not.

    `before`: the signals at the last plan, `since_ms` ago; None without one.
    """
    if before is None:
        return FIRST_PLAN
    lost = [worker for worker in before.workers if worker not in now.workers]
    joined = [worker for worker in now.workers if worker not in before.workers]
    if lost or joined:
        return "; ".join([*(f"{worker} left" for worker in lost), *(f"{worker} joined" for worker in joined)])
    if now.pin != before.pin:
        return "an operator ordered it"
    if waiting := [name or "a level" for name in now.unserved if name not in before.unserved]:
        return f"requests wait for {', '.join(waiting)}, which no worker serves"
    if now.unserved and (over := [name for name in now.idle if name not in before.idle]):
        return f"requests wait for {', '.join(now.unserved)}, and none for {', '.join(over)} any more"
    if since_ms >= period_ms:
        return PERIOD_IS_OVER
    if now.backlog_ms > 2 * before.backlog_ms + GROWTH_MS and since_ms >= MIN_PAUSE_MS:
        return f"the backlog grew from {before.backlog_ms / 1000:.1f} to {now.backlog_ms / 1000:.1f} s a worker"
    return ""


def is_quiet(seen: Observation) -> bool:
    """Whether nothing came, waits, loads or ended within all windows, so that the next look will see the same.

    Components' demand decays without end; where it is known, nothing is quiet.
    """
    asked = seen.demand_rps or seen.planning_rps or any(seen.counts) or seen.served.requests or seen.needs
    waits = any(queue.waiting for queue in seen.queues) or any(seen.unserved.values())
    settled = all(w.state in SERVING and w.variant == w.home and not w.remaining_ms for w in seen.workers)
    return not asked and not waits and settled and not (seen.components and seen.components.demand)


def only_moves(proposal: PlanProposal, seen: Observation, before: Plan) -> bool:
    """Whether a proposal moves workers that are in place, and nothing forces it to.

    It must where the fleet is not the one planned for, others are let in than before, or the policy is on a course of
    its own, such as a switch of strategy, which its memory shows.
    """
    moves = any(w.home and proposal.allocation.get(w.worker_id, w.home) != w.home for w in seen.workers)
    same_fleet = before.allocation.keys() == {w.worker_id for w in seen.workers}
    same_course = proposal.strategy == before.strategy and proposal.memory == json.loads(before.memory)
    same_admission = admitted(proposal.admission) == admitted(before.admission)
    return moves and same_fleet and same_course and same_admission


class Expectation(NamedTuple):
    """The expected result of a plan at the present demand."""

    in_time: float  # share of requests, [0, 1]
    quality: float | None  # of the answers, on the catalog's scale; None: unknown
    utilization: float = 1.0  # of the busiest level's workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change from the plan in force to another plan."""

    before: Expectation | None  # None: there is none, or it cannot go on (`is_broken`)
    after: Expectation
    away_s: float  # worker-seconds without service: `away_s`
    workers: int  # live ones
    hold_s: float  # how long the new plan is expected to hold
    span: float  # between the catalog's worst and best quality, > 0; 0: unknown, then quality does not count
    risk: float = LATE  # what a request costs that a worker who is away would have served, in spans


def should_switch(change: Change) -> bool:
    """Whether the change pays: gain a request times those of the time it holds against the requests put at risk.

    Both are proportional to the demand, which therefore does not count. A worker that is away takes its share of the
    requests with it, and those that would have found the others busy are late, unless the policy has planned for them:
    then they cost the quality that it reckoned with. A plan for no plan is always worth it.
    """
    if change.before is None:
        return True
    gain = LATE * (change.after.in_time - change.before.in_time) + _better(change.before, change.after, change.span)
    risked_s = change.away_s / max(change.workers, 1) * min(change.before.utilization, 1.0)
    return gain > MIN_GAIN and gain * change.hold_s > change.risk * risked_s


def change_of(plan: Plan | None, proposal: PlanProposal, seen: Observation, catalog: Catalog, hold_s: float) -> Change:
    """The change from the plan in force to a proposal, at the demand planned for."""
    expected = plan.expected if plan and not is_broken(plan, seen.workers) else None
    unknown = Expected(demand_rps=0.0, utilization=0.0, heavy_share=0.0)
    return Change(
        before=expectation_at(expected, seen.planning_rps) if expected else None,
        after=expectation_at(proposal.expected or unknown, seen.planning_rps if proposal.expected else 0.0),
        away_s=away_s(seen.workers, proposal.allocation, catalog),
        workers=len(seen.workers),
        hold_s=hold_s,
        span=span_of(catalog),
        risk=WEIGHED if proposal.weighs_moves else LATE,
    )


def expectation_at(expected: Expected, demand_rps: float) -> Expectation:
    """Return a plan's expectation at another demand: the levels' shares stay, so utilisation grows in proportion.

    Above a utilisation of 1 the rest is late. An expectation of no demand promises nothing above none.
    """
    if demand_rps <= 0:
        return Expectation(1.0, expected.quality, 0.0)
    grown = demand_rps / expected.demand_rps if expected.demand_rps > 0 else float("inf")
    utilization = expected.utilization * grown if expected.utilization > 0 else 0.0
    return Expectation(min(1.0, 1 / utilization) if utilization > 0 else 1.0, expected.quality, utilization)


def away_s(workers: Iterable[WorkerView], allocation: Mapping[str, str], catalog: Catalog) -> float:
    """Return the worker-seconds between the last image on the old variant and the first on the new one: drain and load.

    A worker without a variant counts 0.
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


def _better(before: Expectation, after: Expectation, span: float) -> float:
    if before.quality is None or after.quality is None or span <= 0:
        return 0.0
    return (after.quality - before.quality) / span

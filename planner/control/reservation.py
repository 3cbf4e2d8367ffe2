"""Gives workers to what only some variants serve, whatever the policy: named levels, and variants on request.

No policy's paper knows such requests, and no other level stands in for what they need.

    work for a worker or more   the workers that it takes, at most its share of all predicted work
    less                        one worker by turns while something waits, but none where the policy serves it anyway

A turn goes to what waits longest. It is kept for TURN_MS (two loads, where they take longer) after the last request,
unless something else waits. Of a tenant's work no more counts than its share of the fleet. One worker is left to the
levels while anything else asks for them.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.observation.needs import Need, Variants
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView

MAX_UTILIZATION: Final = 0.8  # of the workers of such a variant: its requests come as they come
TURN_MS: Final = 10_000  # by which another need must have waited longer to take a turn over
LOADS: Final = 2  # of a worker that leaves and comes back


@dataclass(frozen=True, slots=True)
class Reserved:
    """The workers that are reserved."""

    allocation: dict[str, str]  # worker_id -> variant
    reason: str  # "": none is
    without: Observation  # what is left for the levels: workers and demand


def with_reserved(
    plan_for: Callable[[Observation], PlanProposal], seen: Observation, catalog: Catalog
) -> PlanProposal:  # fmt: skip
    """Return what `plan_for` proposes for the workers that are left, with those that are reserved.

    It is asked twice where something waits for a level that its first proposal gives no worker.
    """
    if not seen.needs:
        return plan_for(seen)
    reserved = reserve(seen, catalog, catalog.variants)
    proposal = plan_for(reserved.without)
    missing = reserve(seen, catalog, set(proposal.allocation.values()))
    if missing.allocation != reserved.allocation:
        reserved, proposal = missing, plan_for(missing.without)
    if not reserved.reason:
        return proposal
    allocation = proposal.allocation | reserved.allocation
    reason = f"{proposal.reason}; {reserved.reason}"
    return replace(proposal, allocation=allocation, reason=reason, reserved=reserved.allocation)


def reserve(seen: Observation, catalog: Catalog, served: Collection[str]) -> Reserved:
    """Return the workers to reserve. `served`: variants that the policy gives workers anyway.

    Workers that serve what is needed already stay. What waits may lie with no worker, as its last one was killed.
    """
    needs = {need.variants: need for need in seen.needs if any(name in catalog.served for name in need.variants)}
    workers = _workers(needs.values(), seen)
    wanted = {variants: math.ceil(count) for variants, count in workers.items() if count >= 1}
    turns = [
        need
        for variants, need in needs.items()
        if variants not in wanted and not set(variants) & set(served) and _is_due(need, seen, catalog)
    ]
    most = max(1, math.ceil(math.fsum(workers[need.variants] for need in turns)))
    wanted |= dict.fromkeys([need.variants for need in sorted(turns, key=partial(_turn, seen=seen))[:most]], 1)
    room = _limit(seen, catalog)
    left, allocation, words = list(seen.workers), dict[str, str](), []
    for variants, count in wanted.items():
        name = _variant(variants, seen, catalog)
        ranked = sorted(left, key=lambda w, name=name: (w.home != name, w.remaining_ms, w.worker_id))  # type: ignore[misc]
        chosen = ranked[: min(count, room)]
        room -= len(chosen)
        allocation |= {worker.worker_id: name for worker in chosen}
        left = [worker for worker in left if worker.worker_id not in allocation]
        short = f" of {count} wanted" if len(chosen) < count else ""
        words.append(f"{len(chosen)}{short} on {name} for {needs[variants].rps:.2g}/s that nothing else serves")
    apart = [need.rps for variants, need in needs.items() if _is_apart(variants, set(allocation.values()), catalog)]
    return Reserved(allocation, "; ".join(words), _without(seen, tuple(left), math.fsum(apart)))


def on_request_of(allocation: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    """The part of an allocation that is on request."""
    return {worker: name for worker, name in allocation.items() if name in catalog.on_request}


def _without(seen: Observation, workers: tuple[WorkerView, ...], rps: float) -> Observation:
    forecast = None if seen.forecast_rps is None else max(0.0, seen.forecast_rps - rps)
    return replace(seen, workers=workers, demand_rps=max(0.0, seen.demand_rps - rps), forecast_rps=forecast)


def _is_apart(variants: Variants, reserved: Collection[str], catalog: Catalog) -> bool:
    """Whether requests are no demand of the levels: they have a worker of their own, or no level serves them."""
    return not set(variants).isdisjoint(reserved) or set(variants).isdisjoint(catalog.variants)


def _workers(needs: Collection[Need], seen: Observation) -> dict[Variants, float]:
    """The workers that each need keeps busy. Of a tenant's work no more counts than its part of the fleet."""
    busy: dict[str, float] = {}
    for need in needs:
        for tenant, work in need.work.items():
            busy[tenant] = busy.get(tenant, 0.0) + work / MAX_UTILIZATION
    part = len(seen.workers) / max(1, len(busy.keys() | seen.in_flight.keys()))
    return {
        need.variants: math.fsum(
            work / MAX_UTILIZATION * min(1.0, part / busy[tenant]) for tenant, work in need.work.items() if work > 0
        )
        for need in needs
    }


def _limit(seen: Observation, catalog: Catalog) -> int:
    """The most workers to reserve: as large a part of them as the needs are of all predicted work, rounded up."""
    needed = math.fsum(work for need in seen.needs for work in need.work.values())
    others_rps = seen.demand_rps - math.fsum(need.rps for need in seen.needs)
    if others_rps <= 1e-9:
        return len(seen.workers)
    others = others_rps * _mean_ms(seen, catalog) / 1000
    share = needed / (needed + others)
    return min(max(1, math.ceil(share * len(seen.workers))), len(seen.workers) - 1)


def _mean_ms(seen: Observation, catalog: Catalog) -> float:
    """Mean run time of first images by the routes of the plan in force; before it, of the cheapest level."""
    routes = seen.in_force.routes if seen.in_force is not None else ()
    times = [
        math.fsum(share * run_ms(catalog.level(variant_of(level)), 1) for level, share in route.levels.items())
        for route in routes
        if all(variant_of(level) in catalog.served for level in route.levels)
    ]
    return math.fsum(times) / len(times) if times else run_ms(catalog.cheapest(), 1)


def _variant(variants: Variants, seen: Observation, catalog: Catalog) -> str:
    """The variant that serves a need: one that a worker has already, else the first."""
    known = [name for name in variants if name in catalog.served]
    homes = {worker.home for worker in seen.workers}
    return next((name for name in known if name in homes), known[0])


def _is_due(need: Need, seen: Observation, catalog: Catalog) -> bool:
    """Whether a need may have a turn: something waits, or it has one that is not over."""
    load_ms = catalog.level(_variant(need.variants, seen, catalog)).load_ms
    kept_ms = max(TURN_MS, LOADS * load_ms)
    return need.waiting > 0 or (_has_turn(need, seen) and seen.now_ms - need.last_ms <= kept_ms)


def _turn(need: Need, seen: Observation) -> tuple[bool, float, Variants]:
    """By what has waited longest; who has the turn keeps it against what has waited little longer."""
    return need.waiting == 0, need.oldest_ms - TURN_MS * _has_turn(need, seen), need.variants


def _has_turn(need: Need, seen: Observation) -> bool:
    return any(worker.home in need.variants for worker in seen.workers)

"""Reserves workers for requests that only some variants serve: named levels, and variants on request.

The policies' papers have no such requests, and no other level can serve them.

    work for a worker or more   the workers that it takes
    less                        one worker while a request waits; none if the policy gives the variant a worker anyway

Needs get at most their share of all predicted work in workers, rounded up, the longest waiting first; with a single
worker they take turns. A turn is kept for TURN_MS (or two loads, if longer) after the last request, unless another need
waits. A tenant's work counts up to its share of the fleet. One worker is left to the levels while other requests come.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.control.wording.format import counted, number
from planner.observation.needs import Need, Variants
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView

MAX_UTILIZATION: Final = 0.8  # of the workers of such a variant: its requests come as they come
TURN_MS: Final = 10_000  # by which another need must have waited longer to take a turn over
LOADS: Final = 2  # of a worker that leaves and comes back
TRIALS: Final = 3  # proposals that a policy is asked for


@dataclass(frozen=True, slots=True)
class Reserved:
    """The workers that are reserved."""

    allocation: dict[str, str]  # worker_id -> variant
    reason: str  # "": none is
    without: Observation  # what is left for the levels: workers and demand


def with_reserved(
    plan_for: Callable[[Observation], PlanProposal], seen: Observation, catalog: Catalog
) -> PlanProposal:  # fmt: skip
    """Return `plan_for`'s proposal for the remaining workers, with the reserved ones.

    With fewer workers a policy may serve other levels than before: it is called again, up to TRIALS times, while its
    proposal leaves a waiting need without a worker. Chosen is the proposal that serves the longest waiting need, then
    the second longest, and so on.
    """
    if not seen.needs:
        return plan_for(seen)
    served, tried = set(catalog.variants), list[PlanProposal]()
    while len(tried) < TRIALS:
        reserved = reserve(seen, catalog, served)
        if any(reserved.allocation == proposal.reserved for proposal in tried):
            break
        proposal = plan_for(reserved.without)
        served = set(proposal.allocation.values())
        allocation = proposal.allocation | reserved.allocation
        is_left_out = bool(reserved.reason) and not proposal.allocation
        left = "no worker is left for the levels" if is_left_out else proposal.reason
        reason = "; ".join(filter(None, [left, reserved.reason]))
        tried.append(replace(proposal, allocation=allocation, reason=reason, reserved=reserved.allocation))
    return min(tried, key=lambda proposal: left_waiting(seen, proposal.allocation))


def left_waiting(seen: Observation, allocation: Mapping[str, str]) -> list[bool]:
    """Return for each waiting need whether an allocation gives it no worker, the longest waiting first."""
    served = set(allocation.values())
    waiting = sorted((need for need in seen.needs if need.waiting), key=partial(_turn, seen=seen))
    return [served.isdisjoint(need.variants) for need in waiting]


def reserve(seen: Observation, catalog: Catalog, served: Collection[str]) -> Reserved:
    """Return the workers to reserve. `served`: variants that the policy gives workers anyway.

    Each need gets one worker before any gets a second, the longest waiting first. Workers that serve a need already
    stay. A need may wait without any worker, if its last one was killed.
    """
    needs = [need for need in seen.needs if not catalog.served.keys().isdisjoint(need.variants)]
    workers = _workers(needs, seen)
    due = [
        need
        for need in needs
        if workers[need.variants] >= 1 or (set(need.variants).isdisjoint(served) and _is_due(need, seen, catalog))
    ]
    due.sort(key=partial(_turn, seen=seen))
    room = _limit(seen, catalog)
    spare, left, allocation, words = max(0, room - len(due)), list(seen.workers), dict[str, str](), []
    for need in due[:room]:
        name, wanted = _variant(need.variants, seen, catalog), max(1, math.ceil(workers[need.variants]))
        ranked = sorted(left, key=lambda w, name=name: (w.home != name, w.remaining_ms, w.worker_id))  # type: ignore[misc]
        chosen = ranked[: min(wanted, 1 + spare)]
        spare -= len(chosen) - 1
        allocation |= {worker.worker_id: name for worker in chosen}
        left = [worker for worker in left if worker.worker_id not in allocation]
        count = counted(len(chosen), "worker") if len(chosen) == wanted else f"{len(chosen)} of {wanted} workers"
        words.append(f"{count} for {name}, {_needed_by(need)}")
    if due[room:]:
        later = ", ".join(_variant(need.variants, seen, catalog) for need in due[room:])
        words.append(f"{later} {'waits for its' if len(due) == room + 1 else 'wait for their'} turn")
    apart = [need.rps for need in needs if _is_apart(need.variants, set(allocation.values()), catalog)]
    return Reserved(allocation, "; ".join(words), _without(seen, tuple(left), math.fsum(apart)))


def _needed_by(need: Need) -> str:
    if need.rps <= 0:
        return f"for which {counted(need.waiting, 'request')} {'waits' if need.waiting == 1 else 'wait'}"
    per_minute = number(60 * need.rps)
    return "which 1 request a minute needs" if per_minute == "1" else f"which {per_minute} requests a minute need"


def on_request_of(allocation: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    """The part of an allocation that is on request."""
    return {worker: name for worker, name in allocation.items() if name in catalog.on_request}


def _without(seen: Observation, workers: tuple[WorkerView, ...], rps: float) -> Observation:
    forecast = None if seen.forecast_rps is None else max(0.0, seen.forecast_rps - rps)
    return replace(seen, workers=workers, demand_rps=max(0.0, seen.demand_rps - rps), forecast_rps=forecast)


def _is_apart(variants: Variants, reserved: Collection[str], catalog: Catalog) -> bool:
    """Whether a need is no demand on the levels: it has a worker of its own, or no level serves it."""
    return not set(variants).isdisjoint(reserved) or set(variants).isdisjoint(catalog.variants)


def _workers(needs: Collection[Need], seen: Observation) -> dict[Variants, float]:
    """Return the workers that each need keeps busy. A tenant's work counts up to its share of the fleet."""
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
    """Return the max number of workers to reserve: the needs' share of all predicted work, rounded up."""
    needed = math.fsum(work for need in seen.needs for work in need.work.values())
    others_rps = seen.demand_rps - math.fsum(need.rps for need in seen.needs)
    if others_rps <= 1e-9:
        return len(seen.workers)
    others = others_rps * _mean_ms(seen, catalog) / 1000
    share = needed / (needed + others)
    return min(max(1, math.ceil(share * len(seen.workers))), len(seen.workers) - 1)


def _mean_ms(seen: Observation, catalog: Catalog) -> float:
    """Return the mean run time of first images by the routes in force; without a plan, the cheapest level's."""
    routes = seen.in_force.routes if seen.in_force is not None else ()
    times = [
        math.fsum(share * run_ms(catalog.level(variant_of(level)), 1) for level, share in route.levels.items())
        for route in routes
        if all(variant_of(level) in catalog.served for level in route.levels)
    ]
    return math.fsum(times) / len(times) if times else run_ms(catalog.cheapest(), 1)


def _variant(variants: Variants, seen: Observation, catalog: Catalog) -> str:
    """Return the variant that serves a need: one that has a worker already, else the first."""
    known = [name for name in variants if name in catalog.served]
    homes = {worker.home for worker in seen.workers}
    return next((name for name in known if name in homes), known[0])


def _is_due(need: Need, seen: Observation, catalog: Catalog) -> bool:
    """Whether a need may have a turn: a request waits, or its turn is not over."""
    load_ms = catalog.level(_variant(need.variants, seen, catalog)).load_ms
    kept_ms = max(TURN_MS, LOADS * load_ms)
    return need.waiting > 0 or (_has_turn(need, seen) and seen.now_ms - need.last_ms <= kept_ms)


def _turn(need: Need, seen: Observation) -> tuple[bool, float, Variants]:
    """Return the order of needs: the longest waiting first; the current turn counts as TURN_MS of waiting."""
    return need.waiting == 0, need.oldest_ms - TURN_MS * _has_turn(need, seen), need.variants


def _has_turn(need: Need, seen: Observation) -> bool:
    return any(worker.home in need.variants for worker in seen.workers)

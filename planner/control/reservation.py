"""Reserves workers for requests that only some variants serve: named levels, and variants on request.

The policies' papers have no such requests, and no other level can serve them.

    work for a worker or more   the workers that it takes
    less                        one worker while a request waits; none if the policy gives the variant a worker anyway

Needs get at most their share of all predicted work in workers, rounded up, the longest waiting first; with a single
worker they take turns. A turn is kept for TURN_MS (or two loads, if longer) after the last request, unless another need
waits. A tenant's work counts up to its share of the fleet. One worker is left to the levels while other requests come;
the only worker is lent where it serves these as well (`sharing.py`), or where hardly one comes before it is back.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.control.sharing import MAX_UTILIZATION, Admit, PlanFor, Spare, scaled, spare_of, with_shares
from planner.control.wording.format import counted, number
from planner.observation.needs import Need, Variants
from planner.observation.observation import ANY_LEVEL, Observation
from planner.observation.run_times import SURE_CALLS, ObservedRunTime, as_served, factors_of
from planner.observation.workers import WorkerView

TURN_MS: Final = 10_000  # by which another need must have waited longer to take a turn over
LOADS: Final = 2  # of a worker that leaves and comes back
TRIALS: Final = 3  # proposals that a policy is asked for
MISSED: Final = 1.0  # other requests that may come while the only worker is lent
MOVE_MS: Final = 1000  # of a worker that changes its group, beside its load (measured: 1 to 3 s)
MIN_LEFT: Final = 0.1  # share of a level's time that counts as left, however much is asked for by name
OTHERS_WAIT: Final = "other requests wait until it is free: start another worker to serve both at once"


@dataclass(frozen=True, slots=True)
class Reserved:
    """The workers that are reserved."""

    allocation: dict[str, str]  # worker_id -> variant
    reason: str  # "": none is
    without: Observation  # what is left for the levels: workers and demand
    spares: tuple[Spare, ...]  # the workers that are reserved for levels


def with_reserved(
    plan_for: PlanFor, seen: Observation, catalog: Catalog, admit: Admit, *, holds: bool = False
) -> PlanProposal:
    """Return `plan_for`'s proposal for the remaining workers, with the reserved ones and who is let in by `admit`.

    With fewer workers a policy may serve other levels than before: it is called again, up to TRIALS times, while its
    proposal leaves a waiting need without a worker. Chosen is the proposal that serves the longest waiting need, then
    the second longest, and so on.
    """
    if not seen.needs:
        return admit(plan_for(seen), seen)
    served, tried, catalog = set(catalog.variants), list[PlanProposal](), as_served(catalog, seen.run_times)
    while len(tried) < TRIALS:
        reserved = reserve(seen, catalog, served)
        if any(reserved.allocation == proposal.reserved for proposal in tried):
            break
        if holds:
            whole = _held(seen, reserved.allocation, catalog)
            proposal = admit(plan_for(whole), whole)
        else:
            proposal = with_shares(plan_for, admit, reserved.without, reserved.spares, catalog)
        served = {name for worker, name in proposal.allocation.items() if worker not in reserved.allocation}
        words = [proposal.reason, reserved.reason]
        if reserved.reason and not proposal.allocation:
            proposal, words = replace(proposal, expected=None), [reserved.reason, OTHERS_WAIT]
        allocation = proposal.allocation | reserved.allocation
        reason = "; ".join(filter(None, words))
        tried.append(replace(proposal, allocation=allocation, reason=reason, reserved=reserved.allocation))
    turns = [need for need in seen.needs if not need.waiting and _is_due(need, seen, catalog)]
    return min(tried, key=lambda made: (left_waiting(seen, made.allocation), _left_out(turns, seen, made.allocation)))


def left_waiting(seen: Observation, allocation: Mapping[str, str]) -> list[bool]:
    """Return for each waiting need whether an allocation gives it no worker, the longest waiting first."""
    return _left_out([need for need in seen.needs if need.waiting], seen, allocation)


def _left_out(needs: Collection[Need], seen: Observation, allocation: Mapping[str, str]) -> list[bool]:
    served = set(allocation.values())
    return [served.isdisjoint(need.variants) for need in sorted(needs, key=partial(_turn, seen=seen))]


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
    room = _limit(seen, catalog, due)
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
        reserved = counted(room, "worker")
        words.append(f"requests for {later} wait, as this fleet can reserve {reserved} at once")
    apart = [need.rps for need in needs if _is_apart(need.variants, set(allocation.values()), catalog)]
    spares = _spares(allocation, workers, seen, catalog)
    return Reserved(allocation, "; ".join(words), _without(seen, tuple(left), math.fsum(apart)), spares)


def _held(seen: Observation, allocation: Mapping[str, str], catalog: Catalog) -> Observation:
    """Return the observation for a policy that plans with the workers reserved for levels, where they are.

    Requests that name a level are no demand on the others: it is as much slower as they keep its workers busy.
    """
    busy, workers = defaultdict[str, float](float), list[WorkerView]()
    for need in seen.needs:
        if not catalog.variants.keys().isdisjoint(need.variants):
            busy[_variant(need.variants, seen, catalog)] += math.fsum(need.work.values())
    for worker in seen.workers:
        level = allocation.get(worker.worker_id)
        if level is None or level in catalog.variants:
            workers.append(replace(worker, allocated=level, is_reserved=True) if level else worker)
    homes, factors = Counter(worker.home for worker in workers), factors_of(seen.run_times)
    slower = [
        ObservedRunTime(name, factors.get(name, 1.0) / max(MIN_LEFT, 1 - work / max(1, homes[name])), SURE_CALLS)
        for name, work in busy.items()
    ]
    others = [each for each in seen.run_times if each.variant not in busy]
    rest = _without(seen, tuple(workers), math.fsum(need.rps for need in seen.needs))
    return replace(rest, run_times=(*others, *slower))


def _spares(
    allocation: Mapping[str, str], workers: Mapping[Variants, float], seen: Observation, catalog: Catalog
) -> tuple[Spare, ...]:
    levels = sorted(set(allocation.values()) & catalog.variants.keys())
    busy = {level: MAX_UTILIZATION * sum(work for names, work in workers.items() if level in names) for level in levels}
    named = {level: [each for each in seen.workers if allocation.get(each.worker_id) == level] for level in levels}
    return tuple(spare_of(catalog.level(level), named[level], busy[level], seen.slo_ms) for level in levels)


def _needed_by(need: Need) -> str:
    if need.rps <= 0:
        return f"for which {counted(need.waiting, 'request')} {'waits' if need.waiting == 1 else 'wait'}"
    per_minute = number(60 * need.rps)
    return "which 1 request a minute needs" if per_minute == "1" else f"which {per_minute} requests a minute need"


def on_request_of(allocation: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    """The part of an allocation that is on request."""
    return {worker: name for worker, name in allocation.items() if name in catalog.on_request}


def _without(seen: Observation, workers: tuple[WorkerView, ...], rps: float) -> Observation:
    return replace(scaled(seen, 1 - rps / seen.demand_rps if seen.demand_rps > 0 else 1.0), workers=workers)


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


def _limit(seen: Observation, catalog: Catalog, due: Sequence[Need]) -> int:
    """Return the max number of workers to reserve: the needs' share of all predicted work, rounded up."""
    needed = math.fsum(work for need in seen.needs for work in need.work.values())
    others_rps = seen.demand_rps - math.fsum(need.rps for need in seen.needs)
    if others_rps <= 1e-9:
        return len(seen.workers)
    if len(seen.workers) == 1:
        return int(bool(due) and _may_lend(seen, due[0], others_rps, catalog))
    others = others_rps * _mean_ms(seen, catalog) / 1000
    share = needed / (needed + others)
    return min(max(1, math.ceil(share * len(seen.workers))), len(seen.workers) - 1)


def _may_lend(seen: Observation, need: Need, others_rps: float, catalog: Catalog) -> bool:
    """Whether the only worker may go to a need: it serves the others there as well, or hardly one misses it."""
    (worker,), name = seen.workers, _variant(need.variants, seen, catalog)
    variant = catalog.level(name)
    if name in catalog.variants:
        busy = math.fsum(need.work.values())
        if spare_of(variant, [worker], busy, seen.slo_ms).rps >= others_rps:
            return True
    away_ms = LOADS * (variant.load_ms + MOVE_MS) + run_ms(variant, 1) * max(1, need.waiting)
    is_idle = not (worker.remaining_ms and worker.home != name) and not seen.unserved.get(ANY_LEVEL)
    return is_idle and others_rps * away_ms / 1000 <= MISSED


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
    if need.waiting or not _has_turn(need, seen) or catalog.served.keys().isdisjoint(need.variants):
        return need.waiting > 0
    kept_ms = max(TURN_MS, LOADS * catalog.level(_variant(need.variants, seen, catalog)).load_ms)
    return seen.now_ms - need.last_ms <= kept_ms


def _turn(need: Need, seen: Observation) -> tuple[bool, float, Variants]:
    """Return the order of needs: the longest waiting first; the current turn counts as TURN_MS of waiting."""
    return need.waiting == 0, need.oldest_ms - TURN_MS * _has_turn(need, seen), need.variants


def _has_turn(need: Need, seen: Observation) -> bool:
    return any(worker.home in need.variants for worker in seen.workers)

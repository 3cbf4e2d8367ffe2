"""Gives workers to the variants that are there on request, before a policy plans the levels with the others.

No policy's paper knows them, and no level stands in for them: whoever names what only they honour waits for a worker
of theirs. One worker is left to the levels as long as anything asks for levels.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation

MAX_UTILIZATION: Final = 0.8  # of the workers of such a variant: its requests come as they come


@dataclass(frozen=True, slots=True)
class Reserved:
    """The workers of variants on request."""

    allocation: dict[str, str]  # worker_id -> variant
    reason: str  # "": nothing asks for such a variant
    without: Observation  # what is left for the levels: workers and demand


def reserve(seen: Observation, catalog: Catalog) -> Reserved:
    """Return the workers for what was asked of variants on request of late, and for what still waits for one of them.

    Workers that serve them already stay. What waits may lie with no worker, as the one that had it was killed.
    """
    asked = {name: rps for name, rps in sorted(seen.on_request.items()) if name in catalog.on_request}
    waiting = {worker.home for worker in seen.workers if worker.home in catalog.on_request and worker.remaining_ms > 0}
    waiting |= {name for named in seen.in_flight.values() for name in named if name in catalog.on_request}
    asked |= {name: 0.0 for name in sorted(waiting) if name not in asked}
    if not asked:
        return Reserved({}, "", seen)
    total_rps = math.fsum(asked.values())
    others = seen.demand_rps - total_rps > 1e-9
    left = list(seen.workers)
    allocation: dict[str, str] = {}
    words = []
    for name, rps in asked.items():
        wanted = max(1, math.ceil(rps * run_ms(catalog.on_request[name], 1) / 1000 / MAX_UTILIZATION))
        free = max(0, len(left) - others)
        ranked = sorted(left, key=lambda w, name=name: (w.home != name, w.remaining_ms, w.worker_id))  # type: ignore[misc]
        chosen = ranked[: min(wanted, free)]
        allocation |= {worker.worker_id: name for worker in chosen}
        left = [worker for worker in left if worker.worker_id not in allocation]
        short = f" of {wanted} wanted" if len(chosen) < wanted else ""
        words.append(f"{len(chosen)}{short} on {name} for {rps:.2g}/s that name what it alone honours")
    forecast = None if seen.forecast_rps is None else max(0.0, seen.forecast_rps - total_rps)
    rest = replace(seen, workers=tuple(left), demand_rps=max(0.0, seen.demand_rps - total_rps), forecast_rps=forecast)
    return Reserved(allocation, "; ".join(words), rest)


def with_reserved(proposal: PlanProposal, reserved: Reserved) -> PlanProposal:
    """Return a policy's proposal with the reserved workers."""
    if not reserved.reason:
        return proposal
    allocation = proposal.allocation | reserved.allocation
    return replace(proposal, allocation=allocation, reason=f"{proposal.reason}; {reserved.reason}")


def on_request_of(allocation: Mapping[str, str], catalog: Catalog) -> dict[str, str]:
    """The part of an allocation that is on request."""
    return {worker: name for worker, name in allocation.items() if name in catalog.on_request}

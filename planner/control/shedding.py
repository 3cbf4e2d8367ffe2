"""Computes the shares that a plan admits where its workers cannot generate the whole demand: low tiers are shed first.

One rule for every policy, applied to its proposal: a policy has lowered the quality as far as it does, and what is
still too much is turned away at the door, with a reason, rather than expired by chance. The papers' systems do the
latter (DiffServe 4.1 drops at the deadline): then this is not called.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from planner.catalog.entries import run_ms
from planner.catalog.model import Catalog
from planner.control.evaluate import VariantLoad, evaluate, first_loads
from planner.control.proposal import PlanProposal
from planner.control.wording.format import rate
from planner.observation.observation import Observation
from schemas.messages import TIERS, Admission

ORDINARY = "standard"  # the tier of a request that names none
PARTS = 100  # an admitted share is a whole number of these, rounded up: a plan need not change with every breath
RECOVER_S = 30.0  # in which work that has waited too long should be worked off, beside what is let in
CALM = 0.5  # of the SLO: work up to it may wait, so that no worker stands idle
RETRY_S, MAX_RETRY_S = 5.0, 300.0  # the less is let in, the later to ask again


def with_admission(proposal: PlanProposal, seen: Observation, catalog: Catalog) -> PlanProposal:
    """Return the proposal with its admission group, None if its workers can generate the whole demand.

    Only observed demand is shed, not forecast: requests beyond the plan are rejected by the backlog
    (`planner.serving.routing.placement`). Without any worker nothing is shed: requests wait for one, up to their
    deadline.
    """
    demand_rps, carried_rps = min(seen.demand_rps, seen.planning_rps), sustainable_rps(proposal, seen, catalog)
    if demand_rps <= carried_rps:
        return replace(proposal, admission=None)
    admitted = carried_rps * (1 - _backlog_share(seen)) / demand_rps
    shares = shares_by_tier(admitted, seen.tiers)
    if min(shares.values()) >= 1:
        return replace(proposal, admission=None)
    retry_s = math.ceil(min(MAX_RETRY_S, RETRY_S / max(admitted, RETRY_S / MAX_RETRY_S)))
    admitted_shares = ", ".join(f"{share:.0%} of {tier}" for tier, share in shares.items() if share < 1)
    reason = (
        f"shed: demand {rate(demand_rps)}, capacity {rate(carried_rps)}, so {admitted_shares} requests are admitted; "
        f"send again in {retry_s} s"
    )
    admission = Admission(shares=shares, reason=reason, retry_after_ms=1000 * retry_s)
    return replace(proposal, admission=admission, is_feasible=False)


def sustainable_rps(proposal: PlanProposal, seen: Observation, catalog: Catalog) -> float:
    """Return the requests per second that the proposal's workers can generate once each; infinite without a worker.

    A request is generated on the level of its route, or on a cheaper one if that is full or has no worker
    (`planner.serving.routing.routing.RoutingLogic`). So for any number of the cheapest levels, their requests must fit
    into their capacity less the escalations to them. Escalations reject no request: if the next level has no time, the
    draft is the answer (`planner.serving.routing.escalation.EscalationLogic`).
    """
    whole = {load.variant: load.utilization for load in evaluate(proposal, seen, catalog).loads}
    loads = sorted(first_loads(proposal, seen, catalog), key=lambda load: run_ms(catalog.level(load.variant), 1))
    cheapest = next((at for at, load in enumerate(loads) if load.workers), len(loads))
    least, offered, capacity = math.inf, 0.0, 0.0
    for load in loads[cheapest:]:
        offered, capacity = offered + load.offered_rps, capacity + _left_rps(load, whole[load.variant])
        if offered > 0:
            least = min(least, capacity / offered)
    return least * seen.planning_rps if math.isfinite(least) else math.inf


def _left_rps(first: VariantLoad, utilization: float) -> float:
    """Capacity that a level has for first images beside what is escalated to it; `utilization`: by both together.

    In an overfull level both wait in one queue, which takes them in as they come.
    """
    if not first.workers or utilization <= 0:
        return first.capacity_rps
    again = utilization - first.utilization
    return first.capacity_rps * max(1 - again, first.utilization / utilization)


def shares_by_tier(admitted: float, tiers: Mapping[str, float]) -> dict[str, float]:
    """Tier -> share of its requests to let in, so that `admitted` of all are, the tiers served in the order of TIERS.

    `tiers`: tier -> share of the requests seen, {}: all are taken for the default tier. One that was not seen counts as
    next to nothing: let in while there is room.
    """
    seen = tiers or {ORDINARY: 1.0}
    shares, left = {}, min(1.0, max(0.0, admitted))
    for tier in TIERS:
        mass = seen.get(tier, 0.0)
        share = min(1.0, left / mass) if mass > 0 else float(left > 0)
        shares[tier], left = math.ceil(share * PARTS - 1e-9) / PARTS, max(0.0, left - mass)
    return shares


def _backlog_share(seen: Observation) -> float:
    """Share of the workers' time that goes to work that waits beyond CALM: at most half."""
    mean_ms = sum(worker.remaining_ms for worker in seen.workers) / max(1, len(seen.workers))
    return min(0.5, max(0.0, mean_ms - CALM * seen.slo_ms) / 1000 / RECOVER_S)

"""Carries the decisions of an earlier plan over to the workers of now.

This serves an operator's order to go back to an earlier plan (`carry_on`), and a policy that has made no plan
(`fallback_plan`).
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial

from planner.catalog.entries import run_ms, variant_of
from planner.catalog.model import Catalog
from planner.control.allocation import assign, split
from planner.control.plans import publish
from planner.control.proposal import PlanProposal
from planner.control.propose import Rules, with_admission_by
from planner.control.reservation import with_reserved
from planner.control.validity import check
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.scaling.fleet import Staffing, levels_of, with_staffing
from schemas.messages import Cascade, Plan, ResidencyPlan, Route


def carry_over(
    plan: Plan, workers: Sequence[WorkerView], catalog: Catalog, reason: str, live: Collection[WorkerView] = ()
) -> PlanProposal:
    """The plan's decision with its workers in the same proportion, every variant keeping one where that is possible.

    `live`: all live workers; those that are not in `workers` are reserved, and their places stay empty.

    Requests for a variant without a worker go to the next cheaper served one, else to the next dearer; its cascades
    end. Without any worker only the allocation changes, to an empty one.

    Raises:
        Unknown: a level that the catalog does not hold (any more).
    """
    reserved = {worker.worker_id for worker in live} - {worker.worker_id for worker in workers}
    allocation = assign(split(_work(plan, reserved), len(workers)), workers)
    served = set(allocation.values())
    return PlanProposal(
        strategy=plan.strategy,
        routes=tuple(_to_served(route, served, catalog) for route in plan.routes) if served else plan.routes,
        cascades=_among_served(plan.cascades, served) if served else plan.cascades,
        allocation=allocation,
        batch=plan.batch,
        dispatch=plan.dispatch,
        holds=plan.holds,
        reason=reason,
        memory=json.loads(plan.memory),
        reuse=plan.reuse,
        places_components=plan.residency is not None,
        residency=_of_those_left(plan, allocation),
        quality_at_least=plan.quality_at_least,
    )


def _of_those_left(plan: Plan, allocation: Mapping[str, str]) -> ResidencyPlan | None:
    """The residency of the workers that keep their variant: what others held is not theirs to hold any more."""
    if plan.residency is None:
        return None
    left = {w: held for w, held in plan.residency.workers.items() if allocation.get(w) == plan.allocation.get(w)}
    return replace(plan.residency, workers=left)


def carry_on(
    plan: Plan, reason: str, seen: Observation, catalog: Catalog, rules: Rules, staffing: Staffing | None
) -> PlanProposal:
    """Carry the plan over to the workers seen, with those that are reserved, or with the staffing of a scaled fleet."""

    def plan_for(rest: Observation, live: Collection[WorkerView] = ()) -> PlanProposal:
        return carry_over(plan, rest.workers, catalog, reason, live)

    admit = partial(with_admission_by, catalog=catalog, rules=rules)
    if staffing is None:
        return with_reserved(partial(plan_for, live=seen.workers), seen, catalog, admit)
    return with_staffing(admit(plan_for(staffing.seen), staffing.seen), staffing)


def missing_workers(plan: Plan, workers: Iterable[WorkerView]) -> list[str]:
    """The workers that a plan counts on and that are lost, by id."""
    return sorted(plan.allocation.keys() - {worker.worker_id for worker in workers})


def fallback_plan(
    before: Plan,
    why: str,
    seen: Observation,
    catalog: Catalog,
    rules: Rules,
    newest: int = 0,
    staffing: Staffing | None = None,
) -> Plan | None:
    """Return the plan in force on its remaining workers; None if none has left, so that it stays.

    `why`: the policy's failure, for the reason. `newest`: as in `publish`. `staffing`: of a fleet that is scaled.

    Raises PochadeError if the plan does not fit the catalog.
    """
    lost = missing_workers(before, seen.workers)
    if not lost:
        return None
    reason = f"plan {before.version} stays, without {', '.join(lost)}, which left: {why}"

    proposal = carry_on(before, reason, seen, catalog, rules, staffing)
    if staffing is not None:
        proposal = replace(proposal, residency=_of_those_left(before, proposal.allocation))
    plan = publish(proposal, before, before.policy, seen.now_ms, newest)
    check(plan, catalog)
    return plan


def _work(plan: Plan, reserved: Collection[str]) -> Mapping[str, float]:
    """Workers per variant, without those reserved by now; of a plan made without any, one for each it sends to."""
    levels = levels_of(plan)  # of a fleet that is scaled what requests name is not the plan's to share
    kept = [variant for worker, variant in plan.allocation.items() if worker not in reserved]
    placed = [variant for variant in kept if plan.scale is None or variant in levels]
    if placed:
        return Counter(placed)
    first = [variant_of(level) for route in plan.routes for level, share in route.levels.items() if share > 0]
    return dict.fromkeys([*first, *(variant_of(cascade.next_level) for cascade in plan.cascades)], 1.0)


def _to_served(route: Route, served: Set[str], catalog: Catalog) -> Route:
    levels: dict[str, float] = {}
    for level, share in route.levels.items():
        name = level if variant_of(level) in served else _stand_in(level, served, catalog)
        levels[name] = levels.get(name, 0.0) + share
    return Route(
        levels=levels, label=route.label, hardness_from=route.hardness_from, hardness_to=route.hardness_to
    )  # fmt: skip


def _stand_in(level: str, served: Set[str], catalog: Catalog) -> str:
    lost_ms = run_ms(catalog.level(variant_of(level)), 1)
    times = {name: run_ms(catalog.level(name), 1) for name in sorted(served)}
    cheaper = [name for name in times if times[name] <= lost_ms]
    return max(cheaper, key=times.__getitem__) if cheaper else min(times, key=times.__getitem__)


def _among_served(cascades: Iterable[Cascade], served: Set[str]) -> tuple[Cascade, ...]:
    return tuple(c for c in cascades if {variant_of(c.level), variant_of(c.next_level)} <= served)

"""Plans and proposals as plain values for people and programs: what `pochade plan` shows."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from planner.catalog.model import Catalog
from planner.catalog.quality import fid_of
from planner.components.holdings import LOCAL
from planner.control.evaluate import evaluate
from planner.control.plans import publish
from planner.control.proposal import PlanProposal, terms_of
from planner.control.propose import Rules, propose, with_forecast_of
from planner.control.same_plan import admitted
from planner.control.validity import check
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.policies import named
from schemas.errors import Unknown
from schemas.messages import Admission, Cascade, Plan, ResidencyPlan, ReusePlan, Route

UNSERVED = 0.01  # share of the demand, up to which joint calls a plan feasible too
MAX_LISTED = 20  # components in a description
_NEAREST = tuple(tier.label for tier in LOCAL)


class Task(NamedTuple):
    """The problem to solve: a policy, its parameters, an observation and the catalog."""

    policy: str
    seen: Observation
    catalog: Catalog
    memory: Mapping[str, Any] = {}
    parameters: Mapping[str, float] = {}
    rules: Rules = Rules()


class Solved(NamedTuple):
    """A proposal and how long it took."""

    proposal: PlanProposal
    solve_ms: float


def with_forecast(task: Task) -> Task:
    """Return the task with the demand forecast as its policy or its rules have it. Raises Unknown."""
    return task._replace(seen=with_forecast_of(terms_of(named(task.policy)), task.seen, task.rules))


def solve_task(task: Task) -> Solved:
    """The policy's proposal, held to what every plan must hold to. Raises PochadeError."""
    begun = time.perf_counter()
    proposal = propose(named(task.policy), task.seen, task.catalog, task.memory, task.parameters, task.rules)
    solve_ms = 1000 * (time.perf_counter() - begun)
    check(publish(proposal, None, task.policy, task.seen.now_ms), task.catalog)
    return Solved(proposal, solve_ms)


def with_overprovision(task: Task, factor: float | None) -> Task:
    """The task with this many times the demand: by the policy's own parameter, else in the demand it is given."""
    if factor is None:
        return task
    task = with_forecast(task)
    own = {**task.parameters, "overprovision": factor}
    try:
        named(task.policy)(replace(task.seen, workers=()), task.catalog, {}, own)
    except Unknown:
        return task._replace(seen=replace(task.seen, forecast_rps=factor * task.seen.planning_rps))
    return task._replace(parameters=own)


def is_feasible(proposal: PlanProposal, seen: Observation) -> bool:
    """Whether all of the demand but UNSERVED is served: as the policy says, and as its own expectation bears out."""
    expected = proposal.expected
    fits = expected is None or expected.utilization <= 1 + UNSERVED
    return proposal.is_feasible and fits and (bool(proposal.allocation) or seen.planning_rps <= 0)


def report(task: Task, found: Solved) -> dict[str, Any]:
    """JSON values of a proposal, its workers as counts."""
    proposal, expected = found.proposal, found.proposal.expected
    quality = expected.quality if expected else None
    shown = {"demand_rps": None, "utilization": None, "heavy_share": None, **(asdict(expected) if expected else {})}
    return {
        "feasible": is_feasible(proposal, with_forecast(task).seen),
        "policy": task.policy,
        "strategy": proposal.strategy,
        "reason": proposal.reason,
        "workers": len(task.seen.workers),
        "allocation": counts_of(proposal.allocation),
        "batch": proposal.batch,
        "dispatch": proposal.dispatch,
        "routes": [asdict(route) for route in proposal.routes],
        "cascades": [cascade_of(cascade) for cascade in proposal.cascades],
        "admission": asdict(proposal.admission) if proposal.admission else None,
        "scale": asdict(proposal.scale) if proposal.scale else None,
        "expected": {**shown, "quality": quality, "fid": fid_of(task.catalog, quality)},
        "solve_ms": round(found.solve_ms, 3),
    }


def explain_plan(task: Task) -> dict[str, Any]:
    """Explain what binds, and what the policy would plan with one worker more, and with one less."""
    task = with_forecast(task)
    now = solve_task(task)
    evaluation = evaluate(now.proposal, task.seen, task.catalog)
    workers = task.seen.workers
    more = (*workers, WorkerView("~one-more", "", "ready", task.seen.now_ms, 0.0))  # sorts after all others
    others = {"one_more": more, "one_less": workers[:-1]} if workers else {"one_more": more}
    return {
        "now": report(task, now),
        "binding": list(evaluation.binding),
        "latency_ms": evaluation.latency_ms,
        "loads": [{**load._asdict(), "utilization": load.utilization} for load in evaluation.loads],
        **{name: _with(task, some) for name, some in others.items()},
    }


def _with(task: Task, workers: tuple[WorkerView, ...]) -> dict[str, Any]:
    other = task._replace(seen=replace(task.seen, workers=workers))
    return report(other, solve_task(other))


def counts_of(allocation: Mapping[str, str]) -> dict[str, int]:
    """variant -> workers, by name."""
    return dict(sorted(Counter(allocation.values()).items()))


def cascade_of(cascade: Cascade) -> dict[str, Any]:
    """Return a cascade for JSON, with the keys `from` and `to`."""
    return {
        "from": cascade.level,
        "to": cascade.next_level,
        "threshold": cascade.threshold,
        "discriminator": cascade.discriminator,
        "paint_over_step": cascade.refine_from_step,
    }


def differences(before: Plan, after: Plan) -> list[tuple[str, str, str]]:
    """(what, before, after) of everything that was decided otherwise; versions, times and memories do not count."""
    rows = [(name, getattr(before, name), getattr(after, name)) for name in ("policy", "strategy", "dispatch")]
    rows += [("routes", describe_routes(before.routes), describe_routes(after.routes))]
    rows += _tables("cascade after", _cascades(before), _cascades(after))
    rows += _tables("workers on", counts_of(before.allocation), counts_of(after.allocation))
    rows += _tables("admitted of", *(_describe_shares(admitted(plan.admission)) for plan in (before, after)))
    rows += [("reuse", describe_reuse(before.reuse), describe_reuse(after.reuse))]
    rows += _tables("workers wanted of", *(dict(p.scale.targets) if p.scale else {} for p in (before, after)))
    rows += [("who holds components", _places(before.residency), _places(after.residency))]
    rows += _tables("components of", _residencies(before.residency), _residencies(after.residency))
    rows += _tables("batch of", before.batch, after.batch)
    rows += _tables("worker", before.allocation, after.allocation)
    return [(what, str(old), str(new)) for what, old, new in rows if old != new]


def _tables(what: str, before: Mapping[str, object], after: Mapping[str, object]) -> list[tuple[str, Any, Any]]:
    names = sorted(before.keys() | after.keys())
    return [(f"{what} {name}", before.get(name, "-"), after.get(name, "-")) for name in names]


def _cascades(plan: Plan) -> dict[str, str]:
    return {cascade.level: describe_cascade(cascade) for cascade in plan.cascades}


def _describe_shares(shares: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{share:.0%}" for name, share in shares.items()}


def describe_reuse(reuse: ReusePlan | None) -> str:
    """Say what a plan's reuse group allows, in a line."""
    if reuse is None:
        return "none"
    floors = ", ".join(f"{each.share:.0%} of the steps from a cosine of {each.similarity:g}" for each in reuse.floors)
    guard = "no guard" if reuse.guard is None else f"equal facts {reuse.guard.equal:.0%}, style {reuse.guard.style:.0%}"
    check = "unchecked" if reuse.check is None else f"{reuse.check.discriminator} > {reuse.check.threshold:g}"
    return f"{floors or 'no floors'}; {guard}; {reuse.storage.share:.0%} stored, {check}"


def describe_residency(residency: ResidencyPlan) -> str:
    """Say which components a plan wants in which tier of how many workers, the most held first."""
    counts = Counter((id_, tier) for held in residency.workers.values() for id_, tier in held.items())
    ids = sorted({id_ for id_, _ in counts}, key=lambda id_: (-sum(counts[id_, tier] for tier in _NEAREST), id_))
    lines = [
        f"{id_}: " + ", ".join(f"{tier} of {counts[id_, tier]}" for tier in _NEAREST if counts[id_, tier])
        for id_ in ids[:MAX_LISTED]
    ]
    more = [f"and {len(ids) - MAX_LISTED} more"] if len(ids) > MAX_LISTED else []
    return "\n".join([*lines, *more]) or "nothing, on any worker"


def _places(residency: ResidencyPlan | None) -> str:
    return "as each worker used last" if residency is None else "as the plan says"


def _residencies(residency: ResidencyPlan | None) -> dict[str, str]:
    workers = residency.workers if residency is not None else {}
    return {
        w: ", ".join(f"{id_} in {tier}" for id_, tier in sorted(held.items())) for w, held in workers.items() if held
    }


def describe_admission(admission: Admission | None) -> str:
    """Describe which share of each tier is admitted."""
    return admission.reason if admission else "everything"


def describe_cascade(cascade: Cascade) -> str:
    """Describe one cascade in words."""
    over = f", from step {cascade.refine_from_step} of the draft" if cascade.refine_from_step else ""
    condition = f"the confidence by {cascade.discriminator} is below {cascade.threshold:.3f}"
    return f"{cascade.level} -> {cascade.next_level} if {condition}{over}"


def describe_routes(routes: Iterable[Route]) -> str:
    """Describe all routes in words, one per line."""
    return "\n".join(f"{_where(route)} -> {_shares(route.levels)}" for route in routes)


def _where(route: Route) -> str:
    return f"class {route.label}" if route.label else f"hardness {route.hardness_from:g} to {route.hardness_to:g}"


def _shares(levels: Mapping[str, float]) -> str:
    return ", ".join(f"{level} {share:.0%}" for level, share in sorted(levels.items()) if share > 0)

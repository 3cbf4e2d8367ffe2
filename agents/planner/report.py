"""Plans and proposals as plain values for people and programs: what `pochade plan` shows."""

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from agents.planner.describing import cascade_of, counts_of
from planner.catalog.model import Catalog
from planner.catalog.quality import fid_of
from planner.control.evaluate import evaluate
from planner.control.plans import publish
from planner.control.proposal import PlanProposal, terms_of
from planner.control.propose import Rules, propose, with_forecast_of
from planner.control.validity import check
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from planner.policies import named
from schemas.errors import Unknown

UNSERVED = 0.01  # share of the demand, up to which joint calls a plan feasible too


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
    """Return the task with the demand forecast by its policy or its rules. Raises Unknown."""
    return task._replace(seen=with_forecast_of(terms_of(named(task.policy)), task.seen, task.rules))


def solve_task(task: Task) -> Solved:
    """Return the policy's proposal after the checks that every plan must pass. Raises PochadeError."""
    begun = time.perf_counter()
    proposal = propose(named(task.policy), task.seen, task.catalog, task.memory, task.parameters, task.rules)
    solve_ms = 1000 * (time.perf_counter() - begun)
    check(publish(proposal, None, task.policy, task.seen.now_ms), task.catalog)
    return Solved(proposal, solve_ms)


def with_overprovision(task: Task, factor: float | None) -> Task:
    """Return the task with the demand multiplied by a factor in the policy's own parameter, else in the observation."""
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
    """Whether all of the demand but UNSERVED is served, by the policy's own statement and by its expected shares."""
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
        "reason": publish(proposal, None, task.policy, task.seen.now_ms).reason,
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

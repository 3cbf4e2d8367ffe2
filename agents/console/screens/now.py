"""*Now*: demand, share in time, the backlog in seconds of work, the plan in force and what limits it."""

from collections import Counter
from typing import Any, Final, NamedTuple

from agents.console.screens.context import Context
from agents.console.screens.fleet import ANY, deployment_of, variants_of
from planner.control.evaluate import evaluate
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation, class_histograms, hardness_shares
from planner.observation.state import Deployment, in_words, state_of
from planner.observation.workers import live_workers, stated_prices
from schemas.errors import PochadeError
from schemas.messages import Plan
from streams.visible import counted

SPAN_S, STEP_S = 300, 5  # of the line of arrivals
BUSY_S: Final = 60  # window of the busy share
EVENTS: Final = 14


class Line(NamedTuple):
    """A line of arrivals, as an SVG of 100 by 24 draws it."""

    points: str
    most_rps: float


def values(context: Context) -> dict[str, Any]:
    """Return what the template shows."""
    view, plan = context.view, context.view.plans.plan
    view.note_workers(context.now_ms, context.silent_ms)
    total = view.traffic.total(context.now_ms)
    seen = deployment_of(context)
    ready, problems = len(seen.with_standing("ready")), state_of(seen)
    images, work_ms = total.levels.total(), view.traffic.total(context.now_ms, BUSY_S).work_ms
    ended = total.statuses.total()
    return {
        "demand_rps": view.traffic.demand_rps(context.now_ms), "line": line_of(context), "open": view.requests.open,
        "in_time": total.in_time / seen.timed if seen.timed else None, "timed": seen.timed, "slo_ms": view.slo_ms,
        "ended": ended, "statuses": total.ours.most_common(), "by_clients": total.by_clients.total(),
        "ready": ready, "workers": len(seen.heartbeats), "variants": variants_of(context, seen), "any": ANY,
        "plan": plan, "pin": view.plans.pin, "binding": binding_of(context, seen, plan) if plan else [],
        "levels": shares_of(total.levels),
        "strategies": shares_of(total.strategies), "switched": total.switched,
        "switches": view.plans.switches(context.now_ms - 1000 * SPAN_S, context.now_ms),
        "escalated": total.escalated / images if images else None, "images": images,
        "happenings": view.happenings.newest(EVENTS), "refusal": view.plans.refusal,
        "heavy_share": heavy_share(context, total.levels), "busy": work_ms / (1000 * BUSY_S * ready) if ready else None,
        "state": in_words(problems), "problems": problems,
        "cost_per_hour": sum(stated_prices(seen.heartbeats, context.now_ms, context.silent_ms)),
        "cost_per_image": total.cost / images if images else None,
    }  # fmt: skip


def shares_of(counts: Counter[str]) -> list[tuple[str, int, float]]:
    """Return (name, count, share of all), the most first."""
    total = counts.total()
    return [(name, count, count / total) for name, count in counts.most_common()]


def heavy_share(context: Context, levels: Counter[str]) -> float | None:
    """Return the share of images by the best level; None without images."""
    total = levels.total()
    return levels[context.view.catalog.best().name] / total if total else None


def line_of(context: Context) -> Line:
    """Return the arrivals of the last minutes as a line."""
    counts = context.view.traffic.arrivals(context.now_ms, SPAN_S, STEP_S)
    most = max(counts) or 1
    width = 100 / (len(counts) - 1)
    points = " ".join(f"{at * width:.2f},{23 - 22 * count / most:.2f}" for at, count in enumerate(counts))
    return Line(points, max(counts) / STEP_S)


def binding_of(context: Context, seen: Deployment, plan: Plan) -> list[str]:
    """Say what limits the plan in force: problems of the deployment, missing workers, limits at the present demand."""
    return [*(each.what for each in state_of(seen) if each.is_bad), *absent_of(seen, plan), *limits_of(context, plan)]


def absent_of(seen: Deployment, plan: Plan) -> list[str]:
    """Say which variants have fewer ready workers than the plan allocates."""
    ready = {worker_id: beat.variant for worker_id, beat in seen.with_standing("ready").items()}
    if not ready:
        return []  # the deployment's state says so
    there = Counter(variant for worker_id, variant in plan.allocation.items() if ready.get(worker_id) == variant)
    given = sorted(Counter(plan.allocation.values()).items())
    return [
        f"{variant}: {there[variant]} of {counted(count, 'worker')} ready"
        for variant, count in given
        if there[variant] < count
    ]


def limits_of(context: Context, plan: Plan) -> list[str]:
    """Say which limits the plan is close to or beyond at the present demand."""
    view = context.view
    prompts = list(view.hardness)
    workers = live_workers(view.fleet.heartbeats, context.now_ms, context.silent_ms, plan.allocation)
    try:
        seen = Observation(
            now_ms=context.now_ms, demand_rps=view.traffic.demand_rps(context.now_ms), workers=workers,
            hardness=hardness_shares([each for each, _ in prompts]), slo_ms=view.slo_ms, in_force=plan,
            classes=class_histograms([classes for _, classes in prompts]),
        )  # fmt: skip
        return list(evaluate(proposal_of(plan), seen, view.catalog).binding)
    except (PochadeError, KeyError, ValueError) as error:
        return [f"the limits of its levels are not known: {error}"]


def proposal_of(plan: Plan) -> PlanProposal:
    """Return what a plan decided."""
    return PlanProposal(
        routes=plan.routes, allocation=plan.allocation, batch=plan.batch, reason=plan.reason, cascades=plan.cascades,
        dispatch=plan.dispatch, expected=plan.expected, strategy=plan.strategy, admission=plan.admission,
        reuse=plan.reuse, scale=plan.scale, residency=plan.residency,
    )  # fmt: skip

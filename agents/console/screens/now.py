"""*Now*: demand, share in time, the backlog in seconds of work, the plan in force and what limits it."""

from collections import Counter
from typing import Any, Final, NamedTuple

from agents.console.pages import ago
from agents.console.screens.context import Context
from agents.console.screens.fleet import kind_of, variants_of, waiting_of
from planner.control.evaluate import evaluate
from planner.control.proposal import PlanProposal
from planner.observation.observation import Observation, class_histograms, hardness_shares
from planner.observation.workers import live_workers
from planner.serving.routing.unserved import unserved
from schemas.errors import PochadeError
from schemas.messages import Plan
from streams.visible import counted

SPAN_S, STEP_S = 300, 5  # of the line of arrivals
BUSY_S: Final = 60  # window of the busy share
EVENTS: Final = 14


class State(NamedTuple):
    """The state of the deployment: a sentence, and whether it is an alarm."""

    words: str
    is_bad: bool = True


class Line(NamedTuple):
    """A line of arrivals, as an SVG of 100 by 24 draws it."""

    points: str
    most_rps: float


def values(context: Context) -> dict[str, Any]:
    """Return what the template shows."""
    view, plan = context.view, context.view.plans.plan
    view.note_workers(context.now_ms, context.silent_ms)
    total = view.traffic.total(context.now_ms)
    timed = total.in_time + total.late
    images = total.levels.total()
    ended = total.statuses.total()
    return {
        "demand_rps": view.traffic.demand_rps(context.now_ms), "line": line_of(context), "open": view.requests.open,
        "in_time": total.in_time / timed if timed else None, "timed": timed, "slo_ms": view.slo_ms,
        "ended": ended, "statuses": total.statuses.most_common(), "variants": variants_of(context), "plan": plan,
        "pin": view.plans.pin, "binding": binding_of(context, plan) if plan else [], "levels": shares_of(total.levels),
        "strategies": shares_of(total.strategies), "switched": total.switched,
        "switches": view.plans.switches(context.now_ms - 1000 * SPAN_S, context.now_ms),
        "escalated": total.escalated / images if images else None, "images": images,
        "happenings": view.happenings.newest(EVENTS), "refusal": view.plans.refusal,
        "heavy_share": heavy_share(context, total.levels), "busy": busy_share(context),
        "state": state_of(context),
    }  # fmt: skip


def busy_share(context: Context) -> float | None:
    """Return the share of the workers' time spent on recently ended requests; None if no worker is ready."""
    ready = sum(kind_of(beat, context) == "ready" for beat in context.view.fleet.heartbeats.values())
    return context.view.traffic.total(context.now_ms, BUSY_S).work_ms / (1000 * BUSY_S * ready) if ready else None


def state_of(context: Context) -> State:
    """Return the state of the deployment in one sentence."""
    beats = context.view.fleet.heartbeats.values()
    kinds = Counter(kind_of(beat, context) for beat in beats)
    open_ = f"{counted(context.view.requests.open, 'request')} open"
    if kinds["ready"]:
        others = "".join(f", {kinds[kind]} {kind}" for kind in ("started", "silent") if kinds[kind])
        words, waits = f"Serving: {counted(kinds['ready'], 'worker')} ready{others}; {open_}.", unserved_of(context)
        return State(" ".join([words, *(f"{each}." for each in waits)]), is_bad=bool(waits))
    if kinds["started"]:
        return State(f"Not serving yet: {counted(kinds['started'], 'worker')} started, none ready; {open_}.")
    if kinds["silent"]:
        silence = ago(context.now_ms - max(beat.seen_ms for beat in beats))
        why = "All are gone, or the broker is away, and what stands here is as old."
        return State(f"Not serving: no worker has sent a heartbeat for {silence}; {open_}. {why}")
    return State(f"Not serving: no worker is there; {open_}.")


def unserved_of(context: Context) -> list[str]:
    """Say which requests wait for a variant that no worker serves."""
    beats = context.view.fleet.heartbeats.values()
    serving = {beat.heartbeat.variant for beat in beats if kind_of(beat, context) == "ready"}
    return [each.in_words(context.now_ms) for each in unserved(waiting_of(context), serving)]


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


def binding_of(context: Context, plan: Plan) -> list[str]:
    """Say what limits the plan in force: waiting requests, missing workers, limits at the present demand."""
    return [*unserved_of(context), *absent_of(context, plan), *limits_of(context, plan)]


def absent_of(context: Context, plan: Plan) -> list[str]:
    """Say which variants have fewer ready workers than the plan allocates."""
    beats = context.view.fleet.heartbeats
    ready = {
        worker_id: beat.heartbeat.variant for worker_id, beat in beats.items() if kind_of(beat, context) == "ready"
    }
    if not ready:
        return ["no worker is ready"]
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

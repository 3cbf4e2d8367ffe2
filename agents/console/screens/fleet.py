"""*Fleet*: workers wanted, started, ready and silent; their queued work; the components that they hold."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from agents.console.screens.context import Context
from agents.console.view.requests import TrackedRequest
from agents.gateway.streaming.notes import begun_in
from agents.gateway.waiting.expected import lost_by
from agents.planner.fleet_report import device_in_words
from planner.catalog.entries import variant_of
from planner.components.component import Tier
from planner.observation.state import Deployment, Waiting, slow_in_words
from planner.observation.workers import standing_of
from planner.serving.routing.composing import Fits
from schemas.messages import Plan, Status

ANY: Final = "any level"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The workers of one variant, and the work that waits for them."""

    name: str
    wanted: int  # by the plan in force
    started: int  # with heartbeats, and not ready
    ready: int
    silent: int
    backlog_s: float | None  # seconds of work in their partitions; None if all its workers are silent
    drain_s: float | None  # time to finish it without new jobs; None if no worker is ready
    is_awaited: bool  # an open request needs it, or is at it
    waiting: int = 0  # requests for it that no worker has begun
    oldest_ms: float | None = None  # since when the first of them waits (epoch ms); None: none waits

    @property
    def is_lacking(self) -> bool:
        """Whether no worker is ready although there is or may be work, or the plan wants one."""
        return not self.ready and (self.backlog_s != 0 or self.wanted > 0 or self.is_awaited)


def deployment_of(context: Context) -> Deployment:
    """Return the facts that the deployment's state follows from."""
    view, fits, total = context.view, Fits(context.view.catalog), context.view.traffic.total(context.now_ms)
    waiting = [
        Waiting(
            (variant_of(each.level),) if each.level else fits.of(each.request.options, each.request.quality).needs(),
            float(each.first_ms), each.request.tier == "batch",
        )
        for each in view.requests.unended()
        if each.request is not None and not is_running(each, context)
    ]  # fmt: skip
    return Deployment(
        now_ms=context.now_ms, silent_ms=context.silent_ms, plan=view.plans.plan, heartbeats=view.fleet.heartbeats,
        waiting=waiting, open=view.requests.open, ended=total.ours.total(), failed=total.ours[Status.FAILED],
        late=total.late, timed=total.in_time + total.late,
        demand_rps=view.traffic.demand_rps(context.now_ms),
    )  # fmt: skip


def is_running(tracked: TrackedRequest, context: Context) -> bool:
    """Whether a worker that lives has begun an open request."""
    begun = begun_in(tracked.notes)
    return begun is not None and lost_by(context.view.fleet, begun, context.now_ms) is None


def variants_of(context: Context, seen: Deployment) -> list[Variant]:
    """Return the variants that have, should have or are asked to have a worker, in the catalog's order."""
    plan, served = context.view.plans.plan, map(variant_of, context.view.traffic.total(context.now_ms).levels)
    wanted, allocation = wanted_of(plan), plan.allocation if plan else {}
    awaited = {name for each in seen.waiting for name in each.needs}
    awaited |= {variant_of(each.level) for each in context.view.requests.unended() if each.level}
    since: dict[str, list[float]] = {}
    for each in seen.waiting:
        since.setdefault(each.needs[0] if each.needs else ANY, []).append(each.since_ms)
    states: dict[str, Counter[str]] = {}
    backlog_ms: Counter[str] = Counter()
    for worker_id, beat in seen.heartbeats.items():
        variant = beat.heartbeat.variant or allocation.get(worker_id, "")
        standing = standing_of(beat, seen.now_ms, seen.silent_ms)
        states.setdefault(variant, Counter())[standing] += 1
        if standing != "silent":
            backlog_ms[variant] += sum(owned.remaining_ms for owned in beat.heartbeat.partitions)
    for name in context.view.catalog.served:
        states.setdefault(name, Counter())
    names = [*context.view.catalog.served, *(name for name in states if name not in context.view.catalog.served)]
    shown = {*awaited, *served, *wanted}
    rows = [
        Variant(
            name=name or "no variant yet", wanted=wanted.get(name, 0), started=states[name]["started"],
            ready=states[name]["ready"], silent=states[name]["silent"],
            backlog_s=_backlog_s(backlog_ms[name], states[name]),
            drain_s=backlog_ms[name] / 1000 / states[name]["ready"] if states[name]["ready"] else None,
            is_awaited=name in awaited, waiting=len(since.get(name, ())),
            oldest_ms=min(since.get(name, ()), default=None),
        )
        for name in names
        if states[name].total() or name in shown or not seen.heartbeats
    ]  # fmt: skip
    if ANY in since:
        rows.append(
            Variant(
                name=ANY, wanted=0, started=0, ready=len(seen.with_standing("ready")), silent=0, backlog_s=None,
                drain_s=None, is_awaited=True,
                waiting=len(since[ANY]), oldest_ms=min(since[ANY]),
            )
        )  # fmt: skip
    return rows


def _backlog_s(backlog_ms: float, states: Counter[str]) -> float | None:
    is_known = states["ready"] or states["started"] or not states["silent"]
    return backlog_ms / 1000 if is_known else None


def wanted_of(plan: Plan | None) -> Counter[str]:
    """Return the workers that a plan wants of each variant: by its scale, else as it allocates them."""
    if plan is None:
        return Counter()
    return Counter(plan.scale.targets) if plan.scale else Counter(plan.allocation.values())


def values(context: Context) -> dict[str, Any]:
    """Return what the template shows."""
    plan, beats = context.view.plans.plan, context.view.fleet.heartbeats
    seen = deployment_of(context)
    residency = plan.residency.workers if plan and plan.residency else {}
    workers = []
    for worker_id, beat in sorted(beats.items()):
        heartbeat, known = beat.heartbeat, beat.heartbeat.components
        held = {tier.label: known.held.get(tier.label, ()) if known else () for tier in reversed(Tier)}
        held.pop(Tier.REMOTE.label, None)
        nearer = {id_ for ids in held.values() for id_ in ids}
        workers.append(
            {
                "id": worker_id, "kind": standing_of(beat, context.now_ms, context.silent_ms), "state": heartbeat.state,
                "seen_ms": beat.seen_ms,
                "variant": heartbeat.variant, "plan_version": heartbeat.plan_version, "detail": heartbeat.detail,
                "wanted": plan.allocation.get(worker_id, "") if plan else "",
                "backlog_ms": sum(owned.remaining_ms for owned in heartbeat.partitions),
                "partitions": [owned.partition for owned in heartbeat.partitions], "generated": heartbeat.generated,
                "slow": slow_in_words(worker_id, heartbeat), "device": device_in_words(heartbeat.device),
                "held": {tier: ids for tier, ids in held.items() if ids},
                "bytes": dict(known.held_bytes) if known else {}, "loads": known.loads if known else None,
                "lacks": sorted(set(residency.get(worker_id, {})) - nearer), "reuse": heartbeat.reuse,
            }
        )  # fmt: skip
    return {"variants": variants_of(context, seen), "workers": workers, "plan": plan, "any": ANY}

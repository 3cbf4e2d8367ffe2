"""*Fleet*: workers wanted, started, ready and silent; their queued work; the components that they hold."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

from agents.console.screens.context import Context
from agents.planner.fleet_report import device_in_words
from planner.catalog.entries import variant_of
from planner.components.component import Tier
from planner.observation.workers import GONE, SERVING, ReceivedHeartbeat
from planner.serving.routing.composing import Fits
from planner.serving.routing.unserved import Variants
from schemas.messages import Plan

SLOW: Final = 2.0  # times the profile's run time, from which on a worker is marked


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

    @property
    def is_lacking(self) -> bool:
        """Whether no worker is ready although there is or may be work, or the plan wants one."""
        return not self.ready and (self.backlog_s != 0 or self.wanted > 0 or self.is_awaited)


def waiting_of(context: Context) -> list[tuple[Variants, float]]:
    """Return the variants that each waiting request needs, () for any level, and its arrival (epoch ms)."""
    fits = Fits(context.view.catalog)
    return [
        (fits.of(each.request.options, each.request.quality).needs(), float(each.first_ms))
        for each in context.view.requests.unended()
        if each.request is not None and each.status == "waiting"
    ]


def awaited_of(context: Context) -> set[str]:
    """Return the variants that open requests need, or are at."""
    needed = [variant for variants, _ in waiting_of(context) for variant in variants]
    return {*needed, *(variant_of(each.level) for each in context.view.requests.unended())}


def variants_of(context: Context) -> list[Variant]:
    """Return the variants that have, should have or are asked to have a worker, in the catalog's order."""
    plan, beats = context.view.plans.plan, context.view.fleet.heartbeats
    wanted, awaited = wanted_of(plan), awaited_of(context)
    served = set(map(variant_of, context.view.traffic.total(context.now_ms).levels))
    states: dict[str, Counter[str]] = {}
    backlog_ms: Counter[str] = Counter()
    allocation = plan.allocation if plan else {}
    for worker_id, beat in beats.items():
        heartbeat = beat.heartbeat
        variant = heartbeat.variant or allocation.get(worker_id, "")
        states.setdefault(variant, Counter())[kind_of(beat, context)] += 1
        if kind_of(beat, context) != "silent":
            backlog_ms[variant] += sum(owned.remaining_ms for owned in heartbeat.partitions)
    for name in context.view.catalog.served:
        states.setdefault(name, Counter())
    names = [*context.view.catalog.served, *(name for name in states if name not in context.view.catalog.served)]
    return [
        Variant(
            name=name or "no variant yet", wanted=wanted.get(name, 0), started=states[name]["started"],
            ready=states[name]["ready"], silent=states[name]["silent"],
            backlog_s=_backlog_s(backlog_ms[name], states[name]),
            drain_s=backlog_ms[name] / 1000 / states[name]["ready"] if states[name]["ready"] else None,
            is_awaited=name in awaited,
        )
        for name in names
        if states[name].total() or wanted.get(name) or name in awaited | served or not beats
    ]  # fmt: skip


def _backlog_s(backlog_ms: float, states: Counter[str]) -> float | None:
    is_known = states["ready"] or states["started"] or not states["silent"]
    return backlog_ms / 1000 if is_known else None


def wanted_of(plan: Plan | None) -> Counter[str]:
    """Return the workers that a plan wants of each variant: by its scale, else as it allocates them."""
    if plan is None:
        return Counter()
    return Counter(plan.scale.targets) if plan.scale else Counter(plan.allocation.values())


def kind_of(beat: ReceivedHeartbeat, context: Context) -> str:
    """Return ready, started (and not ready), gone or silent."""
    if beat.heartbeat.state in GONE:
        return "gone"
    if context.now_ms - beat.seen_ms > context.silent_ms:
        return "silent"
    return "ready" if beat.heartbeat.state in SERVING else "started"


def values(context: Context) -> dict[str, Any]:
    """Return what the template shows."""
    plan, beats = context.view.plans.plan, context.view.fleet.heartbeats
    residency = plan.residency.workers if plan and plan.residency else {}
    workers = []
    for worker_id, beat in sorted(beats.items()):
        heartbeat, known = beat.heartbeat, beat.heartbeat.components
        held = {tier.label: known.held.get(tier.label, ()) if known else () for tier in reversed(Tier)}
        held.pop(Tier.REMOTE.label, None)
        nearer = {id_ for ids in held.values() for id_ in ids}
        workers.append(
            {
                "id": worker_id, "kind": kind_of(beat, context), "state": heartbeat.state, "seen_ms": beat.seen_ms,
                "variant": heartbeat.variant, "plan_version": heartbeat.plan_version, "detail": heartbeat.detail,
                "wanted": plan.allocation.get(worker_id, "") if plan else "",
                "backlog_ms": sum(owned.remaining_ms for owned in heartbeat.partitions),
                "partitions": [owned.partition for owned in heartbeat.partitions], "generated": heartbeat.generated,
                "slowness": heartbeat.slowness, "device": device_in_words(heartbeat.device),
                "held": {tier: ids for tier, ids in held.items() if ids},
                "bytes": dict(known.held_bytes) if known else {}, "loads": known.loads if known else None,
                "lacks": sorted(set(residency.get(worker_id, {})) - nearer), "reuse": heartbeat.reuse,
            }
        )  # fmt: skip
    return {"variants": variants_of(context), "workers": workers, "plan": plan, "slow": SLOW}

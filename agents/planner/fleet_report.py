"""The fleet's components as plain values for people and programs: what `pochade fleet` shows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from planner.components.component import Kind, Tier, kind_of
from planner.components.demand.popularity import Popularity, classes
from planner.components.holdings import LOCAL, Holdings
from planner.components.mismatch import mismatch
from planner.observation.components import ObservedComponents, ObservedDemand
from planner.observation.observation import Observation
from planner.observation.workers import WorkerView
from schemas.messages import Plan, ResidencyPlan, WorkerComponents, WorkerDevice

TIERS = tuple(tier.label for tier in reversed(Tier))  # the nearest first
NOTHING = WorkerComponents()
OLD_MS = 5000  # age of readings from which on it is shown, as their driver does not answer


def fleet_report(
    seen: Observation, plan: Plan | None, out: Mapping[str, str] = MappingProxyType({}),
    devices: Mapping[str, WorkerDevice] = MappingProxyType({}),
) -> dict[str, Any]:  # fmt: skip
    """Return JSON values: the live workers' components, the demand for them, and the mismatch of both.

    Hits, loads and moved bytes are since each worker's start; requests are counted with a half-life of six hours.
    `out`: workers that have failed or are sick, with the reason.
    """
    found = seen.components or ObservedComponents()
    residency = plan.residency if plan is not None else None
    hits = _total(report.hits for report in found.workers.values())
    return {
        "plan": plan.version if plan else None,
        "policy": plan.policy if plan else None,
        "places_components": residency is not None,
        "workers": [_worker(each, found.workers.get(each.worker_id), residency) for each in seen.workers],
        "out": dict(out),
        "devices": {name: asdict(device) for name, device in devices.items()},
        "components": [
            row
            for variant in sorted({w.variant for w in seen.workers if w.worker_id in found.workers} | {*found.demand})
            for row in _components(variant, seen, found, residency)
        ],
        "hits": hits,
        "hit_rates": _shares(hits),
        "moved_bytes": _total(report.moved_bytes for report in found.workers.values()),
        "loads": sum(report.loads for report in found.workers.values()),
        "mismatch": {v: _mismatch(v, demand, seen, found) for v, demand in sorted(found.demand.items())},
    }


def _worker(view: WorkerView, report: WorkerComponents | None, residency: ResidencyPlan | None) -> dict[str, Any]:
    wanted = residency.workers.get(view.worker_id, {}) if residency is not None else {}
    known = report or NOTHING
    held = {label: sorted(known.held.get(label, ())) for label in TIERS if label != Tier.REMOTE.label}
    nearest = Holdings({"": {tier: frozenset(held[tier.label]) for tier in LOCAL}})
    missing = [id_ for id_, label in wanted.items() if nearest.tier_of("", id_) < Tier[label.upper()]]
    return {
        "worker": view.worker_id,
        "variant": view.variant,
        "state": view.state,
        "remaining_ms": round(view.remaining_ms),
        "reports_components": report is not None,
        "held": held,
        "held_bytes": dict(known.held_bytes),
        "budget_bytes": dict(known.budget_bytes),
        "hits": _ordered(known.hits),
        "hit_rates": _shares(known.hits),
        "moved_bytes": _ordered(known.moved_bytes),
        "loads": known.loads,
        "wanted": dict(wanted),
        "missing": sorted(missing),
    }


def device_in_words(device: WorkerDevice | None) -> str:
    """Return such as "card 3 NVIDIA H200, 71.3 of 141 GB, 64 °C, 97 % busy", as far as it is known; "": nothing is."""
    if device is None:
        return ""
    place = f"card {device.index}" if device.index >= 0 else device.device
    parts = [f"{place} {device.model}".strip()]
    if device.used_bytes is not None and device.free_bytes is not None:
        parts.append(f"{device.used_bytes / 1e9:.3g} of {(device.used_bytes + device.free_bytes) / 1e9:.3g} GB")
    parts += [] if device.temperature_c is None else [f"{device.temperature_c} °C"]
    parts += [] if device.utilisation is None else [f"{100 * device.utilisation:.0f} % busy"]
    parts += [f"read {device.age_ms / 1000:.0f} s before"] if device.age_ms >= OLD_MS else []
    return ", ".join(parts)


def _components(
    variant: str, seen: Observation, found: ObservedComponents, residency: ResidencyPlan | None
) -> list[dict[str, Any]]:
    """One row a component that is held, wanted or was asked for, the most frequent first."""
    holdings = Holdings(_residency_of(variant, seen, found))
    wanted = Counter[str]()
    for view in seen.workers:
        if view.variant == variant and residency is not None:
            wanted.update(residency.workers.get(view.worker_id, {}).keys())
    requests = found.demand[variant].counted().requests(seen.now_ms) if variant in found.demand else {}
    popularity = classes(requests)
    ids = requests.keys() | wanted.keys() | holdings.replicas(Tier.VOLUME).keys()
    return [
        {
            "variant": variant,
            "component": id_,
            "popularity": str(popularity.get(id_, Popularity.COLD)),
            "requests": round(requests.get(id_, 0.0), 2),
            **{tier.label: len(_exactly(id_, tier, holdings)) for tier in LOCAL},
            "wanted": wanted[id_],
        }
        for id_ in sorted(ids, key=lambda id_: (-requests.get(id_, 0.0), id_))
    ]


def _exactly(id_: str, tier: Tier, holdings: Holdings) -> list[str]:
    """The workers whose nearest tier that holds a component is this one."""
    return [worker for worker in holdings.holders(id_, tier) if holdings.tier_of(worker, id_) is tier]


def _residency_of(
    variant: str, seen: Observation, found: ObservedComponents
) -> dict[str, Mapping[Tier, frozenset[str]]]:
    all_held = found.holdings().by_worker
    return {
        w.worker_id: all_held[w.worker_id] for w in seen.workers if w.variant == variant and w.worker_id in all_held
    }


def _mismatch(variant: str, demand: ObservedDemand, seen: Observation, found: ObservedComponents) -> dict[str, float]:
    """Eq. 2 of MLoRA for bases: as if all were held alike, and as they are held on devices; and its half of the latter.

    The half is the share of what is held that lies where demand is not.
    """
    asked = demand.counted().bases(seen.now_ms)
    held = Holdings(_residency_of(variant, seen, found)).replicas(Tier.DEVICE)
    bases = {id_: float(count) for id_, count in held.items() if kind_of(id_) is Kind.BASE}
    actual = mismatch(asked, bases)
    return {
        "uniform": round(mismatch(asked).total, 4),
        "held": round(actual.total, 4),
        "misplaced_share": round(actual.over, 4),
    }


def _total(tables: Any) -> dict[str, int]:
    total = Counter[str]()
    for table in tables:
        total.update(table)
    return _ordered(total)


def _ordered(table: Mapping[str, int]) -> dict[str, int]:
    return {label: table[label] for label in TIERS if table.get(label)}


def _shares(hits: Mapping[str, int]) -> dict[str, float]:
    total = sum(hits.values())
    return {label: round(hits[label] / total, 4) for label in TIERS if hits.get(label)} if total else {}

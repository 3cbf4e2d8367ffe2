"""Plans in words, and how two differ: what commands and the console show."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from planner.components.holdings import LOCAL
from planner.control.renewal.same_plan import admitted
from schemas.messages import Admission, Cascade, Plan, ResidencyPlan, ReusePlan, Route

MAX_LISTED = 20  # components in a description
_NEAREST = tuple(tier.label for tier in LOCAL)


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
    """Return (what, before, after) of each decision that differs; versions, times and memories do not count."""
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
    """Say which share of each tier is admitted."""
    return admission.reason if admission else "all requests"


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

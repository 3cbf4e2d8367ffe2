"""Summarises the plans that a policy published in a run."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from schemas.messages import Plan


def planned_of(plans: Sequence[Plan], ended_ms: float) -> dict[str, Any]:
    """Summarise the plans in force until the run ended, in numbers and mappings of numbers, to average over seeds.

    workers      variant -> mean over time, least and most of the workers that plans gave it
    batch        variant -> least and most jobs that share a call
    thresholds   level -> least and most confidence from which on its images were kept
    heavy_share  least and most that plans expected of the catalog's best level
    admitted     least and most share of ordinary requests that plans let in, where one shed any
    """
    if not plans:
        return {}
    ends = [*(plan.created_ms for plan in plans[1:]), ended_ms]
    times = [max(0.0, min(end, ended_ms) - max(0, plan.created_ms)) for plan, end in zip(plans, ends, strict=True)]
    expected = [plan.expected.heavy_share for plan in plans if plan.expected]
    shed = [plan.admission.shares.get("standard", 1.0) if plan.admission else 1.0 for plan in plans]
    found = {
        "workers": _workers(plans, times),
        "batch": _ranges(item for plan in plans for item in plan.batch.items()),
        "thresholds": _ranges((c.level, c.threshold) for plan in plans for c in plan.cascades),
        "heavy_share": _range(expected) if expected else {},
        "admitted": _range(shed) if min(shed) < 1 else {},
    }
    return {name: value for name, value in found.items() if value}


def _workers(plans: Sequence[Plan], times: Sequence[float]) -> dict[str, dict[str, float]]:
    counts = [Counter(plan.allocation.values()) for plan in plans]
    total = sum(times)
    held_by_variant = {}
    for variant in sorted(set(itertools.chain.from_iterable(counts))):
        held = [count[variant] for count in counts]
        mean = sum(n * ms for n, ms in zip(held, times, strict=True)) / total if total else held[-1]
        held_by_variant[variant] = {"mean": round(mean, 2)} | _range(held)
    return held_by_variant


def _ranges(items: Iterable[tuple[str, float]]) -> dict[str, dict[str, float]]:
    values = defaultdict(list)
    for name, value in items:
        values[name].append(value)
    return {name: _range(found) for name, found in sorted(values.items())}


def _range(values: Sequence[float]) -> dict[str, float]:
    return {"least": round(min(values), 6), "most": round(max(values), 6)}

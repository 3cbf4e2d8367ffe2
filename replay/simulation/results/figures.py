"""The figures of a run, and of several that differ by their seed: mean and 95 % interval."""

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from planner.catalog.model import Catalog
from planner.catalog.quality import fid_of
from replay.reports.intervals import interval
from replay.simulation.results.mixtures import run_quality, spans_quality
from replay.simulation.results.planned import planned_of
from replay.simulation.results.run_metrics import PartMetrics, RunMetrics
from replay.simulation.run import Ran
from schemas.messages import Status
from schemas.topics import HOUR_MS

RANKS = (50, 95, 99)
PLANNED = "planned"  # of the first seed
QUALITIES = ("quality", "quality_optimistic", "quality_run", "quality_run_optimistic")
IN_SLO = "quality_in_slo"

Figures = dict[str, Any]
"""name -> number, None where there is nothing to report, or a mapping of such."""


def figures_of(ran: Ran) -> Figures:
    """Compute the figures of a run. Times in seconds; shares of 1.

    violations   requests that were late, shed, unhonoured, expired, failed, or open when the run was stopped
    quality      of the answers: their mean, or on a scale that is no mean (FID) as `mixtures.py` says: over stretches
                 of 20 s, and as `quality_run` of all answers together; `optimistic`: the upper one of two bounds
    rejected     answers that a discriminator had rejected, and that had to do for lack of time
    heavy_share  answers of the catalog's best level, by answers
    utilization  time workers generated, by time they were alive
    cost         worker seconds from the start to the last end, the dead not counted
    """
    tally, catalog = ran.tally, ran.setup.catalog
    completed, best = tally.ends[Status.COMPLETED], catalog.best().name
    qualities = qualities_of(tally, ran.setup.true_catalog)
    return {
        "requests": tally.requests,
        "completed": completed,
        "violations": tally.violations,
        "violation_rate": _mean(tally.violations, tally.requests),
        "late": tally.late,
        "shed": tally.ends[Status.REJECTED] - tally.unhonoured,
        "unhonoured": tally.unhonoured,
        "expired": tally.ends[Status.EXPIRED],
        "failed": tally.ends[Status.FAILED],
        "open": tally.open,
        **qualities,
        **{name.replace("quality", "fid"): fid_of(catalog, qualities[name]) for name in QUALITIES},
        "heavy_share": _mean(tally.levels[best], completed),
        "by_level": dict(sorted(tally.levels.items())),
        "escalated": tally.escalated,
        "rejected": tally.rejected,
        "retried": tally.retried,
        "latency_s": {"mean": _seconds(tally.latencies.mean())}
        | {f"p{rank}": _seconds(tally.latencies.quantile(rank / 100)) for rank in RANKS},
        "utilization": _rounded(_mean(ran.busy_ms, ran.up_ms)),
        "plans": len(ran.plans),
        "plan_failures": ran.failures,
        "switches": ran.switches,
        "cost_worker_s": round(ran.up_ms / 1000, 1),
        **(costs_of(ran, completed) if ran.setup.price_per_hour else {}),
        PLANNED: planned_of(ran.plans, ran.ended_ms),
        **by_part(tally),
        **({"stores": ran.stores} if ran.stores else {}),
        **({"reuse": ran.reuse} if ran.reuse else {}),
        **({"scale": ran.scale} if ran.scale else {}),
        **ran.components,
    }


def costs_of(ran: Ran, completed: int) -> Figures:
    """Compute what the workers cost, idle or not, in all and by answer, in the currency of their price."""
    cost = ran.setup.price_per_hour * ran.up_ms / HOUR_MS
    return {"cost": _rounded(cost), "cost_per_image": round(cost / completed, 9) if completed else None}


def qualities_of(tally: RunMetrics, catalog: Catalog) -> dict[str, float | None]:
    """Every quality of a run by its name; on a scale of single images both windows and both bounds are the mean."""
    if tally.quality_count:
        mean, in_time = (
            _mean(tally.quality_sum, tally.quality_count),
            _mean(tally.quality_sum_in_time, tally.quality_count_in_time),
        )
        return dict.fromkeys(QUALITIES, mean) | {IN_SLO: in_time}
    spans = tally.spans
    values = (
        spans_quality(spans, catalog),
        spans_quality(spans, catalog, is_optimistic=True),
        run_quality(spans, catalog),
        run_quality(spans, catalog, is_optimistic=True),
    )
    found = dict(zip(QUALITIES, values, strict=True)) | {IN_SLO: spans_quality(tally.spans_in_time, catalog)}
    return {name: _rounded(value) for name, value in found.items()}


def by_part(tally: RunMetrics) -> Figures:
    """`by_tier`, in the order in which they are served, where there is more than one; `by_tenant` where they count."""
    parts: Figures = {}
    if len(tally.tiers) > 1:
        parts["by_tier"] = {name: _of_part(tier) for name, tier in tally.tiers.items()}
    if tally.tenants:
        parts["by_tenant"] = {
            name: _of_part(tenant) | {"over_quota": tally.over_quota[name]} for name, tenant in tally.tenants.items()
        }
    return parts


def _of_part(part: PartMetrics) -> Figures:
    return {
        "requests": part.requests,
        "completed": part.ends[Status.COMPLETED],
        "violations": part.violations,
        "violation_rate": _mean(part.violations, part.requests),
        "late": part.late,
        "shed": part.ends[Status.REJECTED] - part.unhonoured,
        "unhonoured": part.unhonoured,
        "expired": part.ends[Status.EXPIRED],
        "latency_s": {f"p{rank}": _seconds(part.latencies.quantile(rank / 100)) for rank in RANKS},
    }


def over_seeds(runs: Sequence[Figures]) -> Figures:
    """Means over runs with different seeds, and `interval`: name -> [low, high], 95 % by Student's t.

    Names whose value is the same in all runs have no interval; a single run is its figures. What a run does not name,
    such as a level that it did not use, is 0 there.
    """
    if len(runs) == 1:
        return runs[0]
    figures: Figures = {}
    intervals: Figures = {}
    for name in dict.fromkeys(itertools.chain.from_iterable(runs)):
        is_table = any(isinstance(run.get(name), dict) for run in runs)
        values = [run.get(name, {} if is_table else 0) for run in runs]
        if name == PLANNED:
            figures[name] = values[0]  # a story of one run: two have no mean
        elif is_table:
            nested = over_seeds(values)
            intervals |= {f"{name}.{key}": both for key, both in nested.pop("interval", {}).items()}
            figures[name] = nested
        elif any(value is None for value in values):
            figures[name] = None
        else:
            figures[name] = _rounded(statistics.fmean(values))
            if min(values) < max(values):
                intervals[name] = interval(values)
    return figures | {"interval": intervals} if intervals else figures


def _mean(total: float, count: float) -> float | None:
    return _rounded(total / count) if count else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else round(ms / 1000, 4)

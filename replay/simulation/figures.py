"""The figures of a run, and of several that differ by their seed: mean and 95 % interval."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from planner.catalog import Catalog
from planner.catalogs.quality import cascade_quality, fid_of, random_quality
from planner.catalogs.value import Pair
from replay.simulation.run import Ran
from replay.simulation.tally import Judges, Span
from schemas.messages import Status

RANKS = (50, 95, 99)
CONFIDENCE = 0.95

Figures = dict[str, Any]
"""name -> number, None where there is nothing to tell, or a mapping of such."""


def figures_of(ran: Ran) -> Figures:
    """What a run came to. Times in seconds; shares of 1.

    violations   requests that were late, shed, expired, failed, or open when the run was given up
    quality      of the answers: their mean, or on a scale that is no mean (FID) the mean over spans of 20 s, each
                 judged as one mixture by the catalog's curves
    heavy_share  answers of the catalog's best level, by answers
    utilization  time workers painted, by time they were alive
    cost         worker seconds from the start to the last end, the dead not counted
    """
    tally, catalog = ran.tally, ran.setup.catalog
    completed, best = tally.ends[Status.COMPLETED], catalog.best().name
    quality = _mean(tally.quality_sum, tally.quality_count)
    if quality is None:
        quality = spans_quality(tally.spans, catalog)
    return {
        "requests": tally.requests,
        "completed": completed,
        "violations": tally.violations,
        "violation_rate": _mean(tally.violations, tally.requests),
        "late": tally.late,
        "shed": tally.ends[Status.REJECTED],
        "expired": tally.ends[Status.EXPIRED],
        "failed": tally.ends[Status.FAILED],
        "open": tally.open,
        "quality": _rounded(quality),
        "quality_in_time": _rounded(_mean(tally.quality_sum_in_time, tally.quality_count_in_time)),
        "fid": _rounded(fid_of(catalog, quality)),
        "heavy_share": _mean(tally.levels[best], completed),
        "by_level": dict(sorted(tally.levels.items())),
        "escalated": tally.escalated,
        "retried": tally.retried,
        "latency_s": {"mean": _seconds(tally.latencies.mean())}
        | {f"p{rank}": _seconds(tally.latencies.quantile(rank / 100)) for rank in RANKS},
        "utilization": _rounded(_mean(ran.busy_ms, ran.up_ms)),
        "plans": ran.plans,
        "plan_failures": ran.failures,
        "switches": ran.switches,
        "cost_worker_s": round(ran.up_ms / 1000, 1),
    }


def spans_quality(spans: Sequence[Span], catalog: Catalog) -> float | None:
    """Mean over spans of what each one's mixture of levels is worth; None where a level's quality is unknown."""
    qualities = [_span_quality(span, catalog) for span in spans]
    known = [quality for quality in qualities if quality is not None]
    return statistics.fmean(known) if known and len(known) == len(qualities) else None


def _span_quality(span: Span, catalog: Catalog) -> float | None:
    parts = [(counts.total(), _mixture_quality(judges, counts, catalog)) for judges, counts in span.items()]
    known = [(count, quality) for count, quality in parts if quality is not None]
    if len(known) < len(parts):
        return None
    return math.fsum(count * quality for count, quality in known) / sum(count for count, _ in known)


def _mixture_quality(judges: Judges, counts: Mapping[str, int], catalog: Catalog) -> float | None:
    total = sum(counts.values())
    if judges is None:
        return random_quality(catalog, {level: count / total for level, count in counts.items()})
    pair = Pair(*judges)
    return cascade_quality(catalog, pair, counts.get(pair.heavy, 0) / total)


def over_seeds(runs: Sequence[Figures]) -> Figures:
    """Means over runs with different seeds, and `interval`: name -> [low, high], 95 % by Student's t.

    Names whose value is the same in all runs have no interval; a single run is its figures.
    """
    if len(runs) == 1:
        return runs[0]
    figures: Figures = {}
    intervals: Figures = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        if isinstance(values[0], dict):
            keys = sorted({key for value in values for key in value})
            nested = over_seeds([{key: value.get(key, 0) for key in keys} for value in values])
            intervals |= {f"{name}.{key}": both for key, both in nested.pop("interval", {}).items()}
            figures[name] = nested
        elif any(value is None for value in values):
            figures[name] = None
        else:
            figures[name] = _rounded(statistics.fmean(values))
            if min(values) < max(values):
                intervals[name] = interval(values)
    return figures | {"interval": intervals} if intervals else figures


def interval(values: Sequence[float]) -> list[float]:
    """The 95 % interval of the mean."""
    from scipy.stats import t

    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    return [round(mean - half, 6), round(mean + half, 6)]


def _mean(total: float, count: float) -> float | None:
    return _rounded(total / count) if count else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else round(ms / 1000, 4)

"""Series over time of a run, in a few hundred intervals. A request counts in the interval in which it arrived."""

import bisect
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from planner.catalog.model import Catalog
from replay.reports.intervals import reach
from replay.simulation.results.mixtures import heavy_share, span_quality
from replay.simulation.results.run_metrics import SPAN_MS
from replay.simulation.results.timeline import Timeline
from replay.simulation.run import Ran
from schemas.messages import Plan

DIGITS = 5  # that are written of a number

Series = dict[str, np.ndarray]
"""name -> float64 [intervals] of one run; nan where there is nothing to report."""


def series_of(ran: Ran) -> Series:
    """Return every series of a run."""
    timeline, catalog = ran.timeline, ran.setup.catalog
    series = of_requests(timeline, catalog) | of_plans(ran.plans, timeline) | of_fleet(ran.lives, timeline)
    if np.isnan(series["quality"]).all():  # a scale that is no mean over images
        qualities = [span_quality(span, ran.setup.true_catalog) for span in ran.tally.spans]
        heavy = [heavy_share(span, catalog.best().name) for span in ran.tally.spans]
        for name, values in (("quality", qualities), ("heavy_share", heavy)):  # of the same answers
            series[name] = of_spans(list(zip(ran.tally.span_ends_ms, values, strict=True)), timeline)
    return series


def of_requests(timeline: Timeline, catalog: Catalog) -> Series:
    """Return the series of requests' ends, by the interval of arrival."""
    best, answered = catalog.best().name, np.array([levels.total() for levels in timeline.levels])
    return {
        "violation_rate": 1 - _share(np.array(timeline.in_time), timeline.arrived),
        "heavy_share": _share(np.array([levels[best] for levels in timeline.levels]), answered),
        "quality": _share(np.array(timeline.quality_sum), np.array(timeline.quality_count)),
        "queue_s": _share(np.array(timeline.queued_ms), np.array(timeline.looks)) / 1000,
    }


def of_spans(spans: Sequence[tuple[float, float | None]], timeline: Timeline) -> np.ndarray:
    """Return series of values of stretches of SPAN_MS, (end in ms, value): the mean of those an interval touches."""
    known = [(end, np.nan if value is None else value) for end, value in spans]
    ends, values = [end for end, _ in known], np.array([value for _, value in known])
    means = np.full(timeline.count, np.nan)
    for at in range(timeline.count):
        first = bisect.bisect_right(ends, at * timeline.width_ms)
        last = bisect.bisect_left(ends, (at + 1) * timeline.width_ms + SPAN_MS)
        touched = values[first:last]
        means[at] = touched.mean() if len(touched) else np.nan
    return means


def capacity_rps(plan: Plan) -> float:
    """The demand at which the plan's busiest variant would generate all the time, as its author expects; nan: unknown.

    Its levels' shares stay, so that utilisation grows in proportion, as `expectation_at` of `planner.control.renewal`
    has it.
    """
    expected = plan.expected
    if expected is None or expected.demand_rps <= 0 or expected.utilization <= 0:
        return math.nan
    return expected.demand_rps / expected.utilization


def of_plans(plans: Sequence[Plan], timeline: Timeline) -> Series:
    """The capacity of the plan in force, weighted by time, and how many new plans came."""
    bounds = np.arange(timeline.count + 1) * timeline.width_ms
    begins = np.array([plan.created_ms for plan in plans], dtype=np.float64)
    changes = np.histogram(begins, bounds)[0].astype(np.float64)
    return {
        "capacity_rps": _interval_means([capacity_rps(plan) for plan in plans], begins, bounds),
        "plan_changes": changes,
    }


def _interval_means(values: Sequence[float], begins: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Mean over each interval of a value that holds from its beginning to the next one's."""
    sums, times = np.zeros(len(bounds) - 1), np.zeros(len(bounds) - 1)
    for value, (begin, end) in zip(values, itertools.pairwise([*begins.tolist(), math.inf]), strict=True):
        if not math.isnan(value):
            within = overlap((begin, end), bounds)
            sums, times = sums + value * within, times + within
    return _share(sums, times)


def overlap(life: tuple[float, float], bounds: np.ndarray) -> np.ndarray:
    """Return how much of each interval lies between two moments."""
    within: np.ndarray = np.clip(np.minimum(bounds[1:], life[1]) - np.maximum(bounds[:-1], life[0]), 0, None)
    return within


def of_fleet(lives: Iterable[tuple[float, float]], timeline: Timeline) -> Series:
    """Worker seconds of each interval, from each process's life (start, end) in ms."""
    bounds = np.arange(timeline.count + 1) * timeline.width_ms
    return {"cost_worker_s": sum((overlap(life, bounds) for life in lives), np.zeros(timeline.count)) / 1000}


def over_seeds(runs: Sequence[Mapping[str, np.ndarray]]) -> dict[str, dict[str, list[float | None]]]:
    """name -> `mean` and, of two runs or more, `half`, the half width of its 95 % interval; None where unknown."""
    return {name: _over_seeds(np.array([run[name] for run in runs])) for name in runs[0]}


def _over_seeds(values: np.ndarray) -> dict[str, list[float | None]]:
    known = (~np.isnan(values)).sum(axis=0)
    mean = _share(np.nansum(values, axis=0), known)
    series_parts = {"mean": rounded(mean)}
    if len(values) > 1:
        variance = _share(np.nansum((values - mean) ** 2, axis=0), np.maximum(known - 1, 0))
        reaches = np.array([reach(int(count)) if count > 1 else np.nan for count in known])
        series_parts["half"] = rounded(reaches * np.sqrt(variance))
    return series_parts


def rounded(values: np.ndarray) -> list[float | None]:
    """Round values to DIGITS digits, for JSON."""
    return [None if math.isnan(value) else float(f"{value:.{DIGITS}g}") for value in values.tolist()]


def _share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole; nan where there is no whole."""
    shares: np.ndarray = np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)
    return shares

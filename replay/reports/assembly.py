"""Assembles report.json's part of one policy: figures, their values by seed, series over time, plans."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from replay.reports.metrics import flat
from replay.simulation.results import series
from replay.simulation.results.figures import Figures, figures_of, over_seeds
from replay.simulation.run import Ran
from schemas.messages import Plan

MAX_CHANGES = 200  # changes of plans that are listed one by one; `plans` counts all


def entry(runs: Sequence[Ran]) -> dict[str, Any]:
    """A policy's part of the report, from its runs, one a seed."""
    figures = [figures_of(ran) for ran in runs]
    return over_seeds(figures) | {
        "by_seed": by_seed(figures),
        "series": series.over_seeds([series.series_of(ran) for ran in runs]),
        "changes": [change(plan) for plan in runs[0].plans[:MAX_CHANGES]],
    }


def demand(ran: Ran) -> dict[str, Any]:
    """The time axis of every series, and the demand on it, which all policies share."""
    timeline = ran.timeline
    width_s = timeline.width_ms / 1000
    return {"interval_s": width_s, "demand_rps": series.rounded(timeline.arrived / width_s)}


def by_seed(runs: Sequence[Figures]) -> dict[str, list[float]]:
    """metric -> its value in each run, in the order of seeds; metrics that some run has no value of are left out."""
    values = [flat(run) for run in runs]
    named = {key: [value for run in values if (value := run[key]) is not None] for key in values[0]}
    return {key: found for key, found in named.items() if len(found) == len(runs)}


def change(plan: Plan) -> dict[str, Any]:
    """A plan as a line of the page's table."""
    capacity = series.capacity_rps(plan)
    return {
        "at_s": plan.created_ms / 1000,
        "version": plan.version,
        "strategy": plan.strategy,
        "workers": dict(sorted(Counter(plan.allocation.values()).items())),
        "thresholds": {cascade.level: cascade.threshold for cascade in plan.cascades},
        "capacity_rps": None if math.isnan(capacity) else round(capacity, 3),
        "reason": plan.reason,
    }

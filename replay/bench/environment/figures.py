"""Summarises measured values, and records the conditions under which they were measured."""

import math
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from replay.local.deployment import settings_shown, versions
from replay.reports.intervals import interval
from streams.settings import Settings

BUSY_S = 1.0  # over which the machine is watched before a run


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed (nearest rank)."""
    assert values, "no values were measured"
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90 and p99 to three digits after the point."""
    return {f"p{rank}": round(quantile(values, rank / 100), 3) for rank in (50, 90, 99)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most of the repeats."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
        "repeats": len(values),
    }


def spread_with_interval(values: Sequence[float]) -> dict[str, Any]:
    """`spread`, and the 95 % interval of the mean; the interval of a single value is None."""
    return {**spread(values), "interval": interval(values) if len(values) > 1 else None}


def per_second(count: int, began_ms: float, ended_ms: float) -> float:
    """A rate, of `count` things in the time between two moments (epoch ms)."""
    return 1000 * count / max(1.0, ended_ms - began_ms)


class Conditions:
    """The load of the machine before the run (watched for a second) and after it."""

    def __init__(self) -> None:
        self._busy = psutil.cpu_percent(interval=BUSY_S)
        self._load = os.getloadavg()[0]

    def as_table(self, settings: Settings) -> dict[str, Any]:
        """Return the conditions for the report: cores, load averages, versions, settings.

        Load averages are of one minute; the one after the run includes the run.
        """
        return {
            "machine": {
                "cores": os.cpu_count(),
                "busy_percent_before": self._busy,
                "load_before": round(self._load, 2),
                "load_after": round(os.getloadavg()[0], 2),
            },
            "versions": versions(),
            "settings": settings_shown(settings),
        }


def met(measured: Mapping[str, float], limits: Mapping[str, tuple[str, float]]) -> dict[str, dict[str, Any]]:
    """Compare each figure with its limit, such as `("<=", 2.0)` or `(">=", 0.97)`."""
    verdicts = {}
    for name, (sign, limit) in limits.items():
        value = measured[name]
        verdicts[name] = {"limit": f"{sign} {limit:g}", "met": value <= limit if sign == "<=" else value >= limit}
    return verdicts

"""The figures of a policy in report.json: what each is called, in which unit, and which way is better.

`replay/METRICS.md` has their formulas; a test holds the two and the schema together.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from schemas.errors import Unknown
from streams.visible import amount

HIGHER, LOWER, NEITHER = "higher", "lower", ""

COUNT, SHARE, QUALITY, SECONDS, WORK = "requests", "share", "quality", "s", "worker s"  # units
MONEY = "money"  # in the currency of the workers' price
PLAIN = "count"
FID, RATE = "fid", "violation_rate"


class Metric(NamedTuple):
    """One figure of a report: its key, label, unit, and which direction is better."""

    key: str  # in report.json, nested ones with a dot
    label: str
    unit: str
    better: str
    meaning: str  # in a line


METRICS = (
    Metric("requests", "requests", COUNT, NEITHER, "requests that arrived"),
    Metric("completed", "completed", COUNT, NEITHER, "requests that were answered with an image, late ones too"),
    Metric("violations", "violations", COUNT, LOWER, "requests that were answered after the SLO, or not at all"),
    Metric("violation_rate", "violations", SHARE, LOWER, "violations as a share of all requests"),
    Metric("late", "late", COUNT, LOWER, "requests that were answered after the SLO"),
    Metric("shed", "shed", COUNT, LOWER, "requests that were rejected for want of room, or by their tenant's quota"),
    Metric(
        "unhonoured",
        "not honoured",
        COUNT,
        LOWER,
        "requests that were rejected as no level does what they ask for, such as quality_at_least",
    ),
    Metric(
        "expired", "expired", COUNT, LOWER, "requests that ended because they could not be answered by their deadline"
    ),
    Metric("failed", "failed", COUNT, LOWER, "requests that ended because their workers died"),
    Metric("open", "open", COUNT, LOWER, "requests without an end when the run was stopped"),
    Metric("quality", "quality", QUALITY, HIGHER, "mean quality of all answers, on the catalog's scale"),
    Metric("quality_in_slo", "quality in the SLO", QUALITY, HIGHER, "mean quality of the answers within the SLO"),
    Metric("fid", "FID", QUALITY, LOWER, "quality as FID, on catalogs with that scale"),
    Metric(
        "quality_optimistic",
        "quality, upper bound",
        QUALITY,
        HIGHER,
        "quality if a random choice were as good as a discriminator's",
    ),
    Metric(
        "fid_optimistic", "FID, optimistic", QUALITY, LOWER, "FID if a random choice were as good as a discriminator's"
    ),
    Metric("quality_run", "quality of the run", QUALITY, HIGHER, "quality of all answers of the run judged together"),
    Metric("fid_run", "FID of the run", QUALITY, LOWER, "FID of all answers of the run judged together"),
    Metric(
        "quality_run_optimistic",
        "quality of the run, upper bound",
        QUALITY,
        HIGHER,
        "quality of the run's answers together if a random choice were as good as a discriminator's",
    ),
    Metric(
        "fid_run_optimistic",
        "FID of the run, optimistic",
        QUALITY,
        LOWER,
        "FID of the run's answers together if a random choice were as good as a discriminator's",
    ),
    Metric("heavy_share", "heavy share", SHARE, NEITHER, "answers that the catalog's best level generated"),
    Metric("escalated", "generated again", COUNT, NEITHER, "images that a discriminator sent on to a better level"),
    Metric(
        "rejected",
        "rejected drafts",
        COUNT,
        LOWER,
        "answers that a discriminator had rejected, kept as there was no time for a better level",
    ),
    Metric("retried", "retried", COUNT, NEITHER, "jobs that a dead worker had in flight"),
    Metric("latency_s.mean", "mean latency", SECONDS, LOWER, "mean time from arrival to answer"),
    Metric("latency_s.p50", "p50", SECONDS, LOWER, "time within which half of the answers came"),
    Metric("latency_s.p95", "p95", SECONDS, LOWER, "time within which 95 % of the answers came"),
    Metric("latency_s.p99", "p99", SECONDS, LOWER, "time within which 99 % of the answers came"),
    Metric("utilization", "busy", SHARE, NEITHER, "share of the time that workers were alive in which they generated"),
    Metric("plans", "plans", PLAIN, NEITHER, "published plans, the first one included"),
    Metric("plan_failures", "failures to plan", PLAIN, LOWER, "times that the policy or its solver raised an error"),
    Metric("switches", "switches", PLAIN, NEITHER, "times that a worker began to load another variant"),
    Metric("cost_worker_s", "cost", WORK, LOWER, "worker seconds alive, busy or not"),
    Metric("cost", "price of the fleet", MONEY, LOWER, "worker time alive, busy or not, at the price of a worker"),
    Metric("cost_per_image", "price of an image", MONEY, LOWER, "the fleet's price by answers"),
)
OF = {metric.key: metric for metric in METRICS}

LEVELS = "by_level"  # of the answers: level -> count; its levels are the catalog's, so no metrics of their own


def metric(key: str) -> Metric:
    """The metric of a key. Raises Unknown."""
    if key not in OF:
        raise Unknown("metric", key, OF)
    return OF[key]


def is_fid(key: str) -> bool:
    """Whether a figure is a FID."""
    return key == FID or key.startswith(f"{FID}_")


def flat(figures: Mapping[str, Any]) -> dict[str, float | None]:
    """A run's or a mean's figures by their keys with dots; what is none of METRICS is left out."""
    found: dict[str, float | None] = {}
    for key in OF:
        value: Any = figures
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, float | int) or value is None:
            found[key] = value
    return found


def possible(key: str, scale: str) -> tuple[float, float]:
    """Return the least and the most that a figure can be on a scale; an interval of a mean may reach beyond."""
    unit = metric(key).unit
    if unit == SHARE or (unit == QUALITY and scale == "facts"):
        return 0.0, 1.0
    return (-math.inf if unit == QUALITY and not is_fid(key) else 0.0), math.inf


def format_value(key: str, value: float | None) -> str:
    """Format a figure for people; a dash where there is none."""
    return "–" if value is None else _format_known(metric(key), value)  # noqa: RUF001


def signed(key: str, value: float) -> str:
    """A difference, for people; of shares in percentage points."""
    text = _format_known(metric(key), value).replace("%", "points")
    return text if value < 0 else f"+{text}"


def _format_known(metric: Metric, value: float) -> str:
    if metric.unit == SHARE:
        return f"{100 * value:.{2 if metric.key == RATE else 1}f} %"
    if metric.unit == QUALITY:
        return f"{value:.2f}" if is_fid(metric.key) or abs(value) >= 10 else f"{value:.4f}"
    if metric.unit == MONEY:
        return amount(value)
    if metric.unit == SECONDS:
        return f"{value:.2f}"
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:,.1f}"

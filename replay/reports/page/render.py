"""Renders the page of a report: one HTML file with everything in it."""

from collections.abc import Mapping
from typing import Any

from replay.reports.compare import about_baseline, seeds_of
from replay.reports.metrics import FID, METRICS, format_value, metric, possible
from replay.reports.page import verdicts
from replay.reports.page.canvas import HUES, MARKERS
from replay.reports.page.courses import over_time
from replay.reports.page.styles import BASELINE_MARK, mark_of, style_of
from replay.reports.page.trade import trade
from replay.simulation.setup import STORES
from replay.traces.ticks import describe_spread
from streams.pages.templates import template
from streams.visible import counted

COLUMNS = (
    "violation_rate", "fid", "quality", "quality_in_slo", "heavy_share", "latency_s.p50", "latency_s.p95",
    "latency_s.p99", "utilization", "switches", "cost_worker_s",
)  # fmt: skip

Report = Mapping[str, Any]


def render(report: Report) -> str:
    """Return the page, which has no script and loads nothing; text from the report is escaped."""
    filters = {
        "formatted": lambda value, key: format_value(key, value),
        "seconds": seconds,
        "against": verdicts.against,
    }
    return template("replay.reports.page", "page.html.jinja", filters).render(
        report=report,
        headline=verdicts.headline(report),
        remarks=verdicts.remarks(report),
        baseline=about_baseline(report),
        judged_by=metric(verdicts.judged_by(report)),
        bests=verdicts.bests(report),
        columns=[metric(key) for key in columns(report)],
        rows=[row(report, name) for name in report["policies"]],
        trade=trade(report),
        courses=over_time(report),
        legend=[legend(report, name) for name in report["policies"]],
        metrics=METRICS,
        setup=setup(report),
    )


def columns(report: Report) -> list[str]:
    """Return the figures of the big table: FID or quality, not both."""
    left_out = {"quality", "quality_in_slo"} if verdicts.judged_by(report) == FID else {FID}
    return [key for key in COLUMNS if key not in left_out]


def row(report: Report, name: str) -> dict[str, Any]:
    """Return a policy's row of the big table: each figure in words, its interval, and whether it is the best."""
    figures = report["policies"][name]
    scale = report["setup"]["scale"]
    cells = [
        {"text": format_value(key, _figure(figures, key)), "interval": _interval(figures, key, scale)}
        for key in columns(report)
    ]
    return {"name": name, "cells": cells, "is_baseline": name == report["baseline"]}


def _figure(figures: Mapping[str, Any], key: str) -> float | None:
    name, _, part = key.partition(".")
    value: float | None = figures[name][part] if part else figures[name]
    return value


def _interval(figures: Mapping[str, Any], key: str, scale: str) -> str:
    ends = figures.get("interval", {}).get(key)
    if ends is None:
        return ""
    least, most = possible(key, scale)
    low, high = (format_value(key, min(most, max(least, end))) for end in ends)
    return "" if low == high else f"{low} to {high}"


def legend(report: Report, name: str) -> dict[str, Any]:
    """Return a policy's legend: an SVG line with its mark."""
    style = style_of(report, name)
    dash = style["linestyle"]
    return {
        "name": name,
        "hue": "--soft" if name == report["baseline"] else f"--hue-{int(style['color'][-2:], 16) % HUES}",
        "dash": "" if dash == "-" else " ".join(str(2 * length) for length in dash[1]),
        "mark": SHAPES[mark_of(report, name)],
    }


SHAPES = {  # matplotlib's marks about (20, 7), as SVG paths
    "o": "M16.5 7a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0",
    "s": "M16.7 3.7h6.6v6.6h-6.6z",
    "D": "M20 2.6l4.4 4.4l-4.4 4.4l-4.4 -4.4z",
    "^": "M20 2.6l4.2 8h-8.4z",
    "v": "M20 11.4l4.2 -8h-8.4z",
    "P": "M18.6 2.8h2.8v2.8h2.8v2.8h-2.8v2.8h-2.8v-2.8h-2.8v-2.8h2.8z",
    BASELINE_MARK: "M16.5 4.6l1.2 -1.2l2.3 2.3l2.3 -2.3l1.2 1.2l-2.3 2.4l2.3 2.4l-1.2 1.2l-2.3 -2.3l-2.3 2.3"
    "l-1.2 -1.2l2.3 -2.4z",
}
assert set(MARKERS) < SHAPES.keys(), f"{MARKERS} have no shape for the legend"


def setup(report: Report) -> dict[str, str]:
    """Return the setup of the run, in words."""
    trace, asked = report["trace"], report["setup"]
    losses = [change["worker_id"] for change in asked["outages"] if not change["is_up"]]
    workers = sum(who not in STORES for who in losses)
    seeds = seeds_of(report)
    return {
        "trace": f"{trace['file']}: {counted(trace['requests'], 'request')} in {seconds(trace['seconds'])}",
        **({"arrivals": describe_spread(trace["spread_within"])} if "spread_within" in trace else {}),
        "sha256 of the trace": trace["sha256"],
        "catalog": f"{asked['catalog']} (quality as {asked['scale']})",
        "workers": f"{asked['workers']}" + (f", {counted(workers, 'time')} one is lost" if workers else ""),
        **{f"outages of the {store}": str(losses.count(store)) for store in STORES if store in losses},
        "SLO": f"{asked['slo_s']:g} s; what cannot meet it is {'not begun' if asked['drops'] else 'generated anyway'}",
        "plans": f"every {asked['period_s']:g} s, demand by {asked['forecast']}",
        "dispatch": asked["dispatch"],
        "classes of requests": ", ".join(f"{name} {how}" for name, how in asked.get("classes", {}).items()) or "none",
        "seeds": str(seeds.start) if len(seeds) == 1 else f"{len(seeds)}: {seeds.start} to {seeds.stop - 1}",
        "parameters": _parameters(asked["parameters"]),
        "versions": ", ".join(f"{name} {version}" for name, version in report["made"]["versions"].items()),
    }


def _parameters(parameters: Mapping[str, Mapping[str, float]]) -> str:
    given = [f"{policy}: {name} {value:g}" for policy, own in parameters.items() for name, value in own.items()]
    return "; ".join(given) or "the policies' own"


def seconds(value: float) -> str:
    """Format a length of time for people."""
    for unit, size in (("days", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"

"""Draws quality against violations: every policy and the split by chance."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from replay.reports.metrics import FID, format_value, possible
from replay.reports.page.canvas import INK, Drawing, plot, svg
from replay.reports.page.styles import mark_of, style_of
from replay.reports.page.verdicts import judged_by
from streams.pages.plots import point

PERCENTS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 70.0, 100.0)
CROWDED = 0.07  # of the axis: ticks are at least so far apart
ROOM = 0.6  # of the axis: points beyond have their names on the left
NEAR = 0.25, 0.06  # of the axes: names of points so close would meet
LINE = 11  # points from name to name
HEIGHT = 4.3  # inches

Report = Mapping[str, Any]


def trade(report: Report) -> Drawing:
    """Draw every policy with its intervals."""
    key = judged_by(report)
    unit = f"{'FID' if key == FID else report['setup']['scale']} (up is better)"
    figure, axes = plot("violations (% of requests, square-root scale)", unit, HEIGHT)
    _root_scale(axes, max((figures["violation_rate"] or 0.0) for figures in report["policies"].values()))
    seen, places = [], {}
    for policy, figures in report["policies"].items():
        if figures[key] is not None and figures["violation_rate"] is not None:
            _point(axes, report, policy, key)
            places[policy] = 100 * figures["violation_rate"], figures[key]
            seen.append(f"{policy} {figures[key]:.4g} at {format_value('violation_rate', figures['violation_rate'])}")
    if key == FID:
        axes.invert_yaxis()
    _names(axes, places)
    caption = "Up and to the left is better. Bars are 95 % intervals over seeds."
    return Drawing("Quality against violations", caption, svg(figure, "trade", f"{unit}: {', '.join(seen)}"))


def _point(axes: Axes, report: Report, policy: str, key: str) -> None:
    figures = report["policies"][policy]
    rate, y = figures["violation_rate"], figures[key]
    ends = figures.get("interval", {})
    least, most = possible(key, report["setup"]["scale"])
    across, along = ends.get("violation_rate", (rate, rate)), ends.get(key, (y, y))
    colour, mark = style_of(report, policy)["color"], mark_of(report, policy)
    look = {"color": colour, "marker": mark, "markersize": 7.5, "clip_on": False, "zorder": 5}
    x_ends = [100 * min(1.0, max(0.0, end)) for end in across]
    point(axes, 100 * rate, y, look, x_ends=x_ends, y_ends=[min(most, max(least, end)) for end in along])


def _names(axes: Axes, places: Mapping[str, tuple[float, float]]) -> None:
    """Write each point's name beside it, on the side with room, or under it where neighbours' names stand."""
    named: list[tuple[float, float]] = []  # points so far, in shares of the axes
    for policy, place in sorted(places.items(), key=lambda item: item[1]):
        x, y = axes.transAxes.inverted().transform(axes.transData.transform(place))
        is_right, neighbours = x > ROOM, sum(x - a < NEAR[0] and abs(y - b) < NEAR[1] for a, b in named)
        named.append((x, y))
        axes.annotate(
            policy, place, xytext=(-6 if is_right else 6, 5 - LINE * neighbours), textcoords="offset points",
            ha="right" if is_right else "left", fontsize=8.5, color=INK,
        )  # fmt: skip


def _root_scale(axes: Axes, most: float) -> None:
    """Scale the axis by the square root, which spreads few violations and leaves room for many."""
    top = 100 * min(1.0, max(0.02, 1.3 * most))
    axes.set_xscale("function", functions=(lambda x: np.sqrt(np.maximum(x, 0)), np.square))
    axes.set_xlim(0, top)
    ticks = [0.0]
    for tick in PERCENTS:
        if tick <= top and math.sqrt(tick) - math.sqrt(ticks[-1]) > CROWDED * math.sqrt(top):
            ticks.append(tick)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])

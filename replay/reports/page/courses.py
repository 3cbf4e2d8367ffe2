"""Draws the plots over time: one line per policy, from the series in report.json alone."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from replay.reports.metrics import FID, possible
from replay.reports.page.canvas import INK, Drawing, MeanSeries, plot, steps, svg
from replay.reports.page.styles import style_of
from replay.reports.page.verdicts import judged_by
from streams.pages.plots import gaps

UNITS_OF_TIME = (("s", 1.0, 600.0), ("min", 60.0, 14_400.0), ("h", 3600.0, 400_000.0), ("days", 86_400.0, math.inf))
REQUESTS = "requests a second"
BANDED = 3  # seeds from which on an interval is narrow enough to be drawn
TICKS, STEPS = 6, (1, 2, 2.5, 5, 10)  # at most, and how far apart: round numbers
FRAME = 2.5  # times the highest demand: capacity far above would flatten it
LINE_WIDTH = 1.02  # of the axis: a line at the most is seen whole

Report = Mapping[str, Any]
Values = Callable[[Report, Mapping[str, MeanSeries]], MeanSeries]
"""(report, a policy's series) -> the series to draw."""


class Course(NamedTuple):
    """One plot of a quantity over time."""

    name: str  # of its ids in the page
    title: str
    unit: str
    caption: str
    values: Values
    most: float = math.inf  # that the axis goes up to
    limit: float = math.inf  # the most that can be: an interval is not drawn beyond it
    has_demand: bool = False  # behind the lines
    is_whole: bool = False  # ticks are whole numbers


def over_time(report: Report) -> list[Drawing]:
    """Draw every plot over time, in the order of the page."""
    frame = FRAME * max(gaps(report["demand_rps"]))
    wanted = (
        Course("capacity", "Demand and capacity", REQUESTS,
               "Filled: requests that arrived. Lines: the demand at which the busiest variant of the plan in force "
               f"would generate all the time{_beyond(report, frame)}.", _capacity, frame, has_demand=True),
        Course("in-time", "Answered in time", REQUESTS,
               "Filled: requests that arrived. Lines: those of them that were answered within the SLO.", _in_time,
               has_demand=True),
        Course("violations", "Violations", "% of requests",
               "Requests of each interval that were answered after the SLO, or never.", _percent("violation_rate"),
               100, 100),
        _quality(report),
        Course("heavy", "Heavy share", "% of answers", "Answers that the catalog's best level generated.",
               _percent("heavy_share"), 100, 100),
        Course("queue", "Queue", "s of work a worker", "Work that waits, mean over workers, as heartbeats report it.",
               lambda _, series: series["queue_s"]),
        Course("cost", "Cost", "workers alive", "Busy or not; each costs a second of a worker a second.", _cost,
               is_whole=True),
        Course("plans", "Plans", "plans so far", "Published since the start; a plan may move workers.", _plans,
               is_whole=True),
    )  # fmt: skip
    return [_figure(report, course) for course in wanted]


def _beyond(report: Report, frame: float) -> str:
    """Name the policies outside of the plot, as their capacity is always far above the demand."""
    means = {name: figures["series"]["capacity_rps"]["mean"] for name, figures in report["policies"].items()}
    known = {name: [value for value in mean if value is not None] for name, mean in means.items()}
    above = [name for name, values in known.items() if values and min(values) > frame]
    return f"; always above the frame: {', '.join(above)}" if above else ""


def _capacity(_: Report, series: Mapping[str, MeanSeries]) -> MeanSeries:
    return {"mean": series["capacity_rps"]["mean"]}  # the band of plans that come at other times hides the rest


def _in_time(report: Report, series: Mapping[str, MeanSeries]) -> MeanSeries:
    late = [rate or 0.0 for rate in series["violation_rate"]["mean"]]
    return {"mean": [rps * (1 - rate) for rps, rate in zip(report["demand_rps"], late, strict=True)]}


def _percent(key: str) -> Values:
    return lambda _, series: _times(series[key], 100.0)


def _quality(report: Report) -> Course:
    caption = "Of the answers to the requests of each interval."
    if judged_by(report) == FID:
        return Course(
            "quality", "Quality", "FID (up is better)", caption, lambda _, series: _times(series["quality"], -1)
        )
    scale = report["setup"]["scale"]
    most = possible("quality", scale)[1]
    return Course("quality", "Quality", scale, caption, lambda _, series: series["quality"], limit=most)


def _cost(report: Report, series: Mapping[str, MeanSeries]) -> MeanSeries:
    return _times(series["cost_worker_s"], 1 / report["interval_s"])


def _plans(_: Report, series: Mapping[str, MeanSeries]) -> MeanSeries:
    return {"mean": list(itertools.accumulate(value or 0.0 for value in series["plan_changes"]["mean"]))}


def _times(shown_parts: MeanSeries, factor: float) -> MeanSeries:
    factors = {"mean": factor, "half": abs(factor)}
    return {
        part: [None if value is None else value * factors[part] for value in values]
        for part, values in shown_parts.items()
    }


def _figure(report: Report, course: Course) -> Drawing:
    figure, axes, at = _timed(report, course.unit)
    if course.has_demand:
        axes.fill_between(at, gaps(report["demand_rps"])[: len(at)], step="mid", color=INK, alpha=0.16, linewidth=0)
    ranges = []
    baseline_first = sorted(report["policies"].items(), key=lambda item: item[0] != report["baseline"])
    for policy, figures in baseline_first:  # what is drawn later lies above: the others are seen over it
        parts = course.values(report, figures["series"])
        has_band = report["setup"]["seeds"] >= BANDED
        shown_parts = {part: values[: len(at)] for part, values in parts.items() if part == "mean" or has_band}
        steps(axes, at, shown_parts, style_of(report, policy), course.limit)
        known = [value for value in shown_parts["mean"] if value is not None]
        ranges += [f"{policy} {min(known):.3g} to {max(known):.3g}"] if known else []
    if course.name == "quality":
        _as_quality(report, axes)
    else:
        axes.set_ylim(0, min(LINE_WIDTH * course.most, axes.get_ylim()[1]))
    axes.yaxis.set_major_locator(MaxNLocator(TICKS, steps=STEPS, integer=course.is_whole))
    alt = f"{course.title} over time, {course.unit}: {', '.join(ranges)}"
    return Drawing(course.title, course.caption, svg(figure, course.name, alt))


def _as_quality(report: Report, axes: Axes) -> None:
    """Limit the axis to the means and a little more, as an interval of few seeds may be very wide."""
    factor = -1.0 if judged_by(report) == FID else 1.0
    means = [figures["series"]["quality"]["mean"] for figures in report["policies"].values()]
    known = [factor * value for mean in means for value in mean if value is not None]
    if known:
        margin = 0.08 * (max(known) - min(known)) or 0.01
        low, high = min(known) - margin, max(known) + margin
        axes.set_ylim(*((high, low) if factor < 0 else (low, high)))


def _timed(report: Report, unit: str) -> tuple[Figure, Axes, Sequence[float]]:
    width_s, count = report["interval_s"], len(report["demand_rps"])
    name, seconds, _ = next(each for each in UNITS_OF_TIME if width_s * count <= each[2])
    figure, axes = plot(f"time since the start ({name})", unit)
    whole = max(1, count - 1)  # the last interval is cut off by the last arrival
    return figure, axes, [(at + 0.5) * width_s / seconds for at in range(whole)]

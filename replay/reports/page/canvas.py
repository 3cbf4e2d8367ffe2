"""Draws a report's plots: their look, and a figure as SVG markup that takes its colours from the page around it.

Colours are names of CSS properties, so that one drawing serves light and dark screens.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streams.pages.plots import gaps, markup, rc_params_of

INK, SOFT, LINE = "#010101", "#020202", "#030303"  # stand-ins: `svg` puts the page's own colours there
HUES = 6  # of a page's palette: --hue-0 ...
_PROPERTIES = {INK: "--ink", SOFT: "--soft", LINE: "--line"} | {f"#0404{at:02x}": f"--hue-{at}" for at in range(HUES)}
DASHES: Sequence[Any] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)))
MARKERS = "osD^vP"
WIDTH, HEIGHT = 4.9, 2.7  # inches; at a phone's width its text stays legible
LEFT, BOTTOM, RIGHT, TOP = 0.68, 0.5, 0.22, 0.1  # margins in inches: the same, so that plots in a column are aligned
_RC_PARAMS = rc_params_of(INK, SOFT, LINE, {
    "font.sans-serif": ["DejaVu Sans"],  # for measuring; the page's own is shown
    "font.size": 10,
    "lines.linewidth": 1.5,
    "path.simplify_threshold": 0.3,
})  # fmt: skip


MeanSeries = Mapping[str, Sequence[float | None]]
"""A series over seeds: `mean`, and `half`, the half width of its interval, where there is one."""


class Drawing(NamedTuple):
    """A plot in the page."""

    title: str
    caption: str
    svg: str


def line_style(at: int) -> dict[str, Any]:
    """Return colour and dash of the at-th policy in every plot; after HUES the colours come again, dashed."""
    return {"color": f"#0404{at % HUES:02x}", "linestyle": DASHES[at // HUES % len(DASHES)]}


def marker(at: int) -> str:
    """Return the shape of the at-th policy's point: colour is never the only sign."""
    return MARKERS[at % len(MARKERS)]


def plot(x: str, y: str, height: float = HEIGHT) -> tuple[Figure, Axes]:
    """Make an empty plot with its axes named, units included."""
    with mpl.rc_context(_RC_PARAMS):
        figure = Figure(figsize=(WIDTH, height), facecolor="none")
        axes = figure.add_axes((
            LEFT / WIDTH, BOTTOM / height, 1 - (LEFT + RIGHT) / WIDTH, 1 - (BOTTOM + TOP) / height,
        ))  # fmt: skip
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        return figure, axes


def svg(figure: Figure, name: str, alt: str) -> str:
    """Return markup for the inside of a page: no date, unique ids, and a text for readers who cannot see it."""
    drawn = markup(figure, _RC_PARAMS)
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r"\n *<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    drawn = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", drawn)
    for colour, prop in _PROPERTIES.items():
        drawn = drawn.replace(colour, f"var({prop})")
    drawn = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", drawn)  # the page's own font
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{_attribute(alt)}" ', 1)


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")


def steps(
    axes: Axes, x: Sequence[float], series: MeanSeries, style: Mapping[str, Any], most: float = float("inf")
) -> None:
    """Draw a line of steps through means, with the band of their interval where there is one, up to what can be."""
    mean = gaps(series["mean"])
    axes.plot(x, mean, drawstyle="steps-mid", **style)
    if "half" in series:
        half = gaps(series["half"])
        low = [m - h for m, h in zip(mean, half, strict=True)]
        high = [min(most, m + h) for m, h in zip(mean, half, strict=True)]
        axes.fill_between(x, low, high, step="mid", color=style["color"], alpha=0.12, linewidth=0)

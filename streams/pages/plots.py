"""The parts that all plots share: their look, a figure as SVG text that depends on data alone, points with intervals.

A page adds its own font and colours. matplotlib is loaded here, half a second: import this where a plot is drawn.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def rc_params_of(ink: str, soft: str, line: str, own: Mapping[str, Any]) -> Any:
    """Return settings of matplotlib: open axes and a quiet grid in three colours, and a page's own settings.

    Untyped, as matplotlib's type of the keys is a list of several hundred literals.
    """
    return {
        "font.family": "sans-serif",
        "text.color": ink,
        "axes.labelcolor": soft,
        "axes.edgecolor": line,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.facecolor": "none",
        "grid.color": line,
        "grid.linewidth": 0.7,
        "xtick.color": soft,
        "ytick.color": soft,
        "xtick.major.size": 0,
        "ytick.major.size": 0,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "pochade",
        **own,
    }


def markup(figure: Figure, look: Any) -> str:
    """Return a figure as an SVG document, without a date."""
    out = io.StringIO()
    with mpl.rc_context(look):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def gaps(values: Sequence[float | None]) -> list[float]:
    """Return values for plotting, with nan where nothing was measured, so that nothing is drawn there."""
    return [float("nan") if value is None else value for value in values]


def point(
    axes: Axes,
    x: float,
    y: float,
    look: Mapping[str, Any],
    *,
    x_ends: Sequence[float | None] = (),
    y_ends: Sequence[float | None] = (),
) -> None:
    """Draw an estimate as a mark, with thin lines from end to end of its intervals. `look` has a `color`."""
    if x_ends:
        axes.plot(gaps(x_ends), [y, y], color=look["color"], linewidth=1)
    if y_ends:
        axes.plot([x, x], gaps(y_ends), color=look["color"], linewidth=1)
    axes.plot(x, y, linestyle="", **look)

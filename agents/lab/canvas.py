"""Drawing: letters, colours and panels of the lab's plots."""

from collections.abc import Sequence
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from streams.pages.plots import markup, rc_params_of

INK, SOFT, LINE, PAPER = "#2b2722", "#7d756a", "#e6dfd3", "#fffdf9"
HUES = ("#4c7a6b", "#b0683c", "#5a6aa0", "#8b5a84", "#9a8a2c", "#3f8fa3", "#a5453c", "#6b6b6b")
Corner = Literal["upper left", "lower left", "lower right"]
RC_PARAMS = rc_params_of(INK, SOFT, LINE, {
    "font.sans-serif": ["Segoe UI", "Helvetica Neue", "Noto Sans", "DejaVu Sans", "Arial", "sans-serif"],
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
})  # fmt: skip


def panels(titles: Sequence[str], width: float = 10.8, height: float = 3.7) -> tuple[Figure, list[Axes]]:
    """A row of plots, one for each title, in inches."""
    with mpl.rc_context(RC_PARAMS):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
        axes = figure.subplots(1, len(titles), squeeze=False)[0]
        for at, title in zip(axes, titles, strict=True):
            at.set_title(title)
        return figure, list(axes)


def svg(figure: Figure) -> str:
    """The figure's markup, without a date."""
    return markup(figure, RC_PARAMS)


def series(at: int) -> dict[str, Any]:
    """The look of the at-th line: after eight the colours come again, in another dash."""
    return {"color": HUES[at % len(HUES)], "linestyle": ("-", (0, (4, 1.5)), (0, (1, 1)))[at // len(HUES) % 3]}


def marker(at: int) -> str:
    """The shape of the at-th point, which changes where the colours come again."""
    return "osD"[at // len(HUES) % 3]


def legend(axes: Axes, where: Corner) -> None:
    """A quiet legend."""
    with mpl.rc_context(RC_PARAMS):
        axes.legend(loc=where, handlelength=1.8, labelcolor=INK)

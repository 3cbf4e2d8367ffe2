"""Quality by the share of the steps that is skipped: by similarity, from unrelated latents, and in fewer steps."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from agents.lab.canvas import legend, panels, series, svg
from agents.lab.profiling.bars import with_bars
from planner.catalog.caching import BegunFrom, Bounded, CachingMeasurement


def plot(level: str, found: CachingMeasurement) -> Figure:
    """Draw both sides: of requests whose facts the guard finds equal, and of all."""
    titles = (f"{level}: the guard passes", f"{level}: whatever the guard says")
    figure, panes = panels(titles, width=11.0, height=4.6)
    for axes, is_passed in zip(panes, (True, False), strict=True):
        bands = [band for band in found.similarity if band.passed == is_passed]
        for at, band in enumerate(bands):
            label = f"similarity {band.low:g} to {band.high:g}, n={band.begun[0].pairs}"
            _line(axes, band.begun, label, series(at))
        if not is_passed and found.unrelated:
            named = f"unrelated, n={found.unrelated[0].pairs}"
            _line(axes, found.unrelated, named, {"color": "#2b2722", "linestyle": ":"})
        if is_passed and found.against_fewer_steps:
            rows = found.against_fewer_steps
            look = {"color": "#2b2722", "linestyle": "--"}
            with_bars(
                axes, [r.share for r in rows], [_bar(r.fewer_quality) for r in rows], "fewer steps, no cache", look
            )
        axes.set_xlabel("share of the steps that is skipped")
        axes.set_ylabel("quality: all stated facts hold")
        if axes.get_legend_handles_labels()[1]:
            legend(axes, "lower left")
    return figure


def svg_plot(level: str, found: CachingMeasurement) -> str:
    """Return the plot as SVG."""
    return svg(plot(level, found))


def _line(axes: Any, begun: Sequence[BegunFrom], label: str, look: dict[str, Any]) -> None:
    with_bars(axes, [row.share for row in begun], [_bar(row.quality) for row in begun], label, look)


def _bar(figure: Bounded) -> dict[str, Any]:
    return {"value": figure.value, "ci": [figure.low, figure.high]}

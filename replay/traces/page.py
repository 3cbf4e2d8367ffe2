"""Shows the figures of a trace: on a terminal, and as one self-contained page with the figures beside it."""

import json
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from replay.traces.inspection import bars, curve, lines
from replay.traces.trace import Trace
from schemas.errors import PochadeError
from streams.pages.templates import template

if TYPE_CHECKING:  # of the extra `reports`, which the terminal does not need
    from matplotlib.figure import Figure

HEIGHT: Final = 8  # rows of the terminal's plot
WIDEST: Final = 120
POINTS: Final = 160  # of the page's plot
UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def show(trace: Trace, found: Mapping[str, Any], console: Console | None = None) -> None:
    """The rate over time in blocks, and the figures below."""
    console = console or Console()
    width = max(20, min(WIDEST, console.width - 12))
    middle, rates = curve(trace, width)
    unit, length = _unit(float(middle[-1]))
    plain: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
    for row, line in enumerate(bars(rates.tolist(), HEIGHT)):
        console.print(f"{float(rates.max()):>8.3g}/s " if row == 0 else " " * 11, line, sep="", **plain)
    end = f"{float(trace.arrival_ms[-1]) / 1000 / length:.3g} {unit}"
    console.print(" " * 11 + "0" + end.rjust(width - 1), **plain)
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in lines(found):
        table.add_row(name, value)
    console.print(table, highlight=False, markup=False)


def write_page(trace: Trace, found: Mapping[str, Any], folder: pathlib.Path) -> pathlib.Path:
    """Write `trace.json` and `trace.html` to a folder, which is created. Raises PochadeError where this fails."""
    from replay.reports.page.canvas import svg

    page = folder / "trace.html"
    drawn = svg(_figure(trace), "rate", f"requests a second over time in {trace.name}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trace.json").write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        text = template("replay.traces", "trace.html", {}, trims=False).render(
            found=found, lines=lines(found), drawn=drawn
        )
        page.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PochadeError(f"{page} cannot be written: {error.strerror}; choose another --report") from None
    return page


def _figure(trace: Trace) -> "Figure":
    from replay.reports.page.canvas import line_style, plot, steps

    middle, rates = curve(trace, POINTS)
    unit, length = _unit(float(middle[-1]))
    figure, axes = plot(f"time, {unit}", "requests a second")
    steps(axes, (middle / length).tolist(), {"mean": rates.tolist()}, line_style(0))
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, float(trace.arrival_ms[-1]) / 1000 / length)
    return figure


def _unit(seconds: float) -> tuple[str, int]:
    return next(((unit, length) for unit, length in UNITS if seconds >= 3 * length), UNITS[-1])

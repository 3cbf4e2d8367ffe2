"""The evaluation as a page: one HTML file with everything in it, the verdicts first."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from PIL import Image

from agents.lab.evaluation.observations import Evaluation
from agents.lab.evaluation.report import plots
from agents.lab.evaluation.report.canvas import svg
from streams.pages.templates import template

PIXELATED_PX = 64  # a picture up to here is enlarged, with hard edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Sample pictures on one sheet."""

    title: str
    image: Image.Image
    alt: str  # what one sees, for who does not
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A picture as the page holds it."""

    uri: str
    alt: str
    width: int  # px, as laid out at most
    title: str = ""
    caption: str = ""
    is_tiny: bool = False


def render(
    evaluation: Evaluation, summary: Mapping[str, Any], grids: Sequence[Grid] = (), missing: Sequence[str] = ()
) -> str:
    """The page, whole in itself. `summary` is `summarise(evaluation)`, or what was read from its evaluate.json.

    `missing` are sentences about what could not be looked at; they are told in full.
    """
    filters = {"figure": figure_text, "points": points_text, "interval": interval_text, "wanted": wanted_text}
    return template("agents.lab.evaluation.report", "report.html.jinja", filters).render(
        summary=summary,
        plots=_plots(summary),
        pairs=[_pair_plots(evaluation, name, found) for name, found in summary["pairs"].items()],
        classes=[
            (name, found, drawn(plots.confusion(name, found), f"Confusion of {name}: {found['accuracy']:.0%} agree"))
            for name, found in summary["classes"].items()
        ],
        grids=[_sheet(grid) for grid in grids],
        missing=missing,
        reached=sum(verdict["met"] for verdict in summary["verdicts"]),
    )


def _plots(summary: Mapping[str, Any]) -> dict[str, Shown]:
    qualities = ", ".join(f"{name} {level['quality']:.3f}" for name, level in summary["levels"].items())
    return {
        "difficulty": drawn(
            plots.by_difficulty(summary), f"Quality of every level by difficulty; overall: {qualities}"
        ),
        "cost": drawn(plots.cost_and_quality(summary), f"Cost against quality; share of facts right: {qualities}"),
        **(
            {"steps": drawn(plots.start_steps(summary), "Quality against the start step K; the table has the numbers")}
            if summary["paint_over_variants"] or summary["reuse_variants"]
            else {}
        ),
    }


def _pair_plots(evaluation: Evaluation, name: str, found: Mapping[str, Any]) -> dict[str, Any]:
    light, heavy = found["pair"]["light"], found["pair"]["heavy"]
    reliability = plots.reliability(found)
    return {
        "name": name,
        "found": found,
        "rankers": [
            ("both", "hybrid", found["hybrid"]),
            *(("picture", ranker, figures) for ranker, figures in found["discriminators"].items()),
            *(("prompt", ranker, figures) for ranker, figures in found["classifiers"].items()),
        ],
        "share": drawn(plots.heavy_share(found), f"Quality against the share painted by {heavy} instead of {light}"),
        "roc": drawn(
            plots.roc_curves(evaluation, evaluation.pairs[name]), f"ROC of telling where {light} is worse than {heavy}"
        ),
        "reliability": reliability and drawn(reliability, "Confidence against the share of pictures that are right"),
    }


def drawn(figure: Figure, alt: str) -> Shown:
    """A figure as an inline SVG picture: its own document, so that no two share ids."""
    width, _ = figure.get_size_inches()
    data = base64.b64encode(svg(figure).encode()).decode()
    return Shown(uri=f"data:image/svg+xml;base64,{data}", alt=alt, width=round(width * 96))


def _sheet(grid: Grid) -> Shown:
    out = io.BytesIO()
    grid.image.save(out, "PNG", optimize=True)
    is_tiny = max(grid.image.size) <= PIXELATED_PX
    return Shown(
        uri=f"data:image/png;base64,{base64.b64encode(out.getvalue()).decode()}",
        alt=grid.alt,
        width=grid.image.width * (3 if is_tiny else 1),
        title=grid.title,
        caption=grid.caption,
        is_tiny=is_tiny,
    )


def figure_text(value: float | None, decimals: int | None = 3) -> str:
    """A number for people, to three digits if not to `decimals`; a dash where there is none."""
    if value is None:
        return "–"  # noqa: RUF001
    return _minus(f"{value:.3g}" if decimals is None else f"{value:.{decimals}f}")


def points_text(value: float | None) -> str:
    """A difference of shares, signed, in percentage points."""
    return "–" if value is None else _minus(f"{100 * value:+.1f}")  # noqa: RUF001


def _minus(text: str) -> str:
    return text.replace("-", "−")  # noqa: RUF001


def interval_text(interval: Sequence[float | None] | None, decimals: int = 3) -> str:
    """Both ends; empty where it is undefined."""
    if interval is None or None in interval:
        return ""
    return _minus(f"{interval[0]:.{decimals}f} to {interval[1]:.{decimals}f}")


def wanted_text(verdict: Mapping[str, Any]) -> str:
    """Met, not met, or not measured."""
    if verdict["got"] is None:
        return "not measured"
    return "reached" if verdict["met"] else "not reached"

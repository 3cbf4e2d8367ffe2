"""The report's plots, each from `evaluate.json` alone, save the ROC, which needs the scores."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from agents.lab.evaluation.observations import HYBRID, ORACLE, RANDOM, Evaluation, Pair
from agents.lab.evaluation.report.canvas import (
    INK,
    PAPER,
    SOFT,
    legend,
    legend_below,
    marker,
    panels,
    series,
    with_bars,
)
from agents.lab.evaluation.statistics.merits import rankers
from agents.lab.evaluation.statistics.ranking import roc
from streams.pages.plots import gaps, point

_QUARTERS = ("easiest", "2nd", "3rd", "hardest")
_STYLE: Mapping[str, Mapping[str, Any]] = {
    ORACLE: {"color": INK, "linestyle": (0, (4, 2)), "linewidth": 1.2},
    RANDOM: {"color": SOFT, "linestyle": (0, (1, 2)), "linewidth": 1.4},
    HYBRID: {"color": INK, "linewidth": 2.2},
}


def by_difficulty(summary: Mapping[str, Any]) -> Figure:
    """Pictures with all facts right, and the share of facts, by quarter of hardness and by number of objects."""
    figure, axes = panels(["All facts right, by quarter", "Share of facts, by quarter", "All facts right, by objects"])
    for at, (name, level) in enumerate(summary["levels"].items()):
        with_bars(axes[0], range(4), level["quality_by_quarter"], name, series(at))
        with_bars(axes[1], range(4), level["facts_by_quarter"], name, series(at))
        numbers = level["quality_by_objects"]
        with_bars(axes[2], [int(number) for number in numbers], list(numbers.values()), name, series(at))
    for quarter in axes[:2]:
        quarter.set_xticks(range(4), _QUARTERS)
    axes[2].set_xlabel("objects asked for")
    axes[2].xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, axes[0])
    return figure


def cost_and_quality(summary: Mapping[str, Any]) -> Figure:
    """Each level's cost against its quality, joined where no other dominates; beside it against its FID, if known."""
    levels, dominated = summary["levels"], summary["dominated"]
    has_fid = any(level["fid"] is not None for level in levels.values())
    figure, axes = panels(["Cost and quality", "Cost and distance from true renderings"][: 1 + has_fid])
    front = sorted((levels[name]["cost_ms"], levels[name]["quality"]) for name in levels if name not in dominated)
    axes[0].plot(*zip(*front, strict=True), color=SOFT, linewidth=1, zorder=1)
    for at, (name, level) in enumerate(levels.items()):
        colour = series(at)["color"]
        look = {"color": colour, "marker": marker(at), "markerfacecolor": PAPER if name in dominated else colour}
        called = f"{name} (dominated)" if name in dominated else name
        _level(axes[0], called, level["cost_ms"], level["quality"], level["quality_ci"], look)
        if level["fid"] is not None:
            spread = 1.96 * level["fid_standard_error"]
            _level(axes[1], name, level["cost_ms"], level["fid"], [level["fid"] - spread, level["fid"] + spread], look)
    for panel, meaning in zip(axes, ("share of facts right", "FID on the scorer's features"), strict=False):
        panel.set_xscale("log")
        panel.set_xticks([level["cost_ms"] for level in levels.values()])  # where the levels are: nothing to overlap
        panel.minorticks_off()
        panel.xaxis.set_major_formatter("{x:.3g}")
        panel.margins(0.1)
        panel.set_xlabel("ms a picture, batch 1 (logarithmic)")
        panel.set_ylabel(meaning)
    legend_below(figure, axes[0])
    return figure


def _level(axes: Axes, name: str, x: float, y: float, ends: Sequence[float | None], look: Mapping[str, Any]) -> None:
    point(axes, x, y, {"markersize": 8, "markeredgewidth": 1.6, "label": name, **look}, y_ends=ends)


def heavy_share(pair: Mapping[str, Any]) -> Figure:
    """Quality against the share painted by heavy, for each ranker with its band: discriminators, then classifiers."""
    figure, axes = panels(["Rankers that see the picture", "Rankers that see the prompt"], height=4.2)
    shares, all_rankers = pair["curves"]["share"], [*pair["classifiers"], *pair["discriminators"]]
    for at, names in zip(axes, (pair["discriminators"], pair["classifiers"]), strict=True):
        order = [ORACLE, HYBRID, *names, RANDOM]
        for name in order:
            style = _STYLE.get(name) or series(all_rankers.index(name))
            curve = pair["curves"]["quality"][name]
            at.plot(shares, gaps(curve["value"]), label=name, **style)
            if name not in (ORACLE, RANDOM):
                at.fill_between(
                    shares, gaps(curve["low"]), gaps(curve["high"]), color=style["color"], alpha=0.11, linewidth=0
                )
        at.set_xlabel(f"share painted by {pair['pair']['heavy']}")
        legend(at, "lower right")
    axes[0].set_ylabel("share of facts right")
    axes[1].sharey(axes[0])
    return figure


def roc_curves(evaluation: Evaluation, pair: Pair) -> Figure:
    """Of telling the prompts on which light is worse than heavy."""
    figure, (axes,) = panels(["Telling where light is worse"], width=5.2, height=4.4)
    as_good = evaluation.levels[pair.light].quality >= evaluation.levels[pair.heavy].quality
    for at, (name, scores) in enumerate(rankers(pair).items()):
        caught, needless = roc(scores, as_good)
        style = _STYLE.get(name) or series(at)
        axes.plot(needless, caught, label=name, **style)
    axes.plot([0, 1], [0, 1], **_STYLE[RANDOM])
    axes.set_xlabel("needless: escalated though light was as good")
    axes.set_ylabel("caught: escalated, and light was worse")
    legend(axes, "lower right")
    return figure


def reliability(pair: Mapping[str, Any]) -> Figure | None:
    """What a confidence says against what came true, for discriminators that speak in probabilities."""
    known = {name: found["reliability"] for name, found in pair["discriminators"].items() if "reliability" in found}
    if not known:
        return None
    figure, (axes,) = panels(["Confidence against truth"], width=5.2, height=4.4)
    axes.plot([0, 1], [0, 1], **_STYLE[RANDOM])
    for at, (name, bins) in enumerate(known.items()):
        x, y = [b["confidence"] for b in bins], [b["right"] for b in bins]
        axes.plot(x, y, label=name, **series(at))
        axes.scatter(
            x, y, s=[8 + 120 * b["count"] / sum(c["count"] for c in bins) for b in bins], color=series(at)["color"]
        )
    axes.set_xlabel("confidence that all facts are right")
    axes.set_ylabel("share of pictures with all facts right")
    legend(axes, "upper left")
    return figure


def confusion(name: str, found: Mapping[str, Any]) -> Figure:
    """Best choice against prediction, in shares of each best choice."""
    names, counts = found["levels"], np.array(found["confusion"])
    figure, (axes,) = panels([f"Classes of {name}"], width=1.9 + 0.95 * len(names), height=1.3 + 0.72 * len(names))
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="YlGn", vmin=0, vmax=1.25, aspect="auto")
    axes.grid(visible=False)
    for (row, column), count in np.ndenumerate(counts):
        axes.text(column, row, f"{shares[row, column]:.0%}\n{count}", ha="center", va="center", color=INK, fontsize=8.5)
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("predicted")
    axes.set_ylabel("best choice")
    return figure


def start_steps(summary: Mapping[str, Any]) -> Figure:
    """Quality against K for every way of starting late, against its work, and by difficulty as shipped."""
    figure, axes = panels(["Quality against K", "Quality against work", "Painting over, by difficulty"], height=4.0)
    ways = {
        **{f"over the draft: {name}": found for name, found in summary["paint_over_variants"].items()},
        **{f"reuse: {name}": found for name, found in summary["reuse_variants"].items()},
    }
    for at, (name, found) in enumerate(ways.items()):
        rows = [{"value": row["quality"], "ci": row["quality_ci"]} for row in found["points"]]
        with_bars(axes[0], [row["k"] for row in found["points"]], rows, name, series(at))
        with_bars(axes[1], [row["cost_share"] for row in found["points"]], rows, name, series(at))
        if found["blank"]["quality"] is not None:
            axes[0].axhline(found["blank"]["quality"], color=series(at)["color"], linewidth=0.8, linestyle=(0, (1, 2)))
    for quarter, called in enumerate(_QUARTERS):
        rows = [row["quality_by_quarter"][quarter] for row in summary["paint_over"]]
        with_bars(axes[2], [row["k"] for row in summary["paint_over"]], rows, called, series(quarter))
    if summary["chosen_k"] is not None:
        for panel in (axes[0], axes[2]):
            panel.axvline(summary["chosen_k"], color=SOFT, linewidth=0.9)
    for panel in (axes[0], axes[2]):
        panel.set_xlabel("step K started from")
    axes[1].set_xlabel("work, as a share of painting blank")
    axes[0].set_ylabel("share of facts right")
    legend_below(figure, axes[0], columns=4)
    legend(axes[2], "lower left")
    return figure

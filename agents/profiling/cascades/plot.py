"""Quality against cost: every setting that was swept, and the rows that no other beats with their intervals."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from agents.profiling.canvas import SOFT, legend, panels, series
from agents.profiling.cascades.settings import Setting
from agents.profiling.cascades.sweep import Sweep
from planner.catalog.profile import SweptTable


def plot(seen: Sweep, others: Sequence[Setting], table: SweptTable) -> Figure:
    """`others`: the best of the pairs that the catalog does not offer."""
    figure, (axes,) = panels([f"Settings of cascades, {table.prompts} prompts"], width=8.4, height=4.8)
    quality = seen.quality
    axes.scatter([s.cost_ms for s in seen.settings], quality, s=3, color=SOFT, alpha=0.15, linewidths=0, label="swept")
    pairs = sorted({(row.row.light, row.row.heavy) for row in table.rows})
    for at, pair in enumerate(pairs):
        rows = [row for row in table.rows if (row.row.light, row.row.heavy) == pair]
        x, y = [r.row.latency_ms for r in rows], np.array([r.row.quality for r in rows])
        bars = np.maximum(0, [y - [r.low for r in rows], np.array([r.high for r in rows]) - y])
        axes.errorbar(
            x, y, yerr=bars, linestyle="", marker="o", markersize=4, elinewidth=0.7, color=series(at)["color"],
            label=f"{' then '.join(pair)}, in the table",
        )  # fmt: skip
    worth = dict(zip(seen.settings, quality.tolist(), strict=True))
    for at, pair in enumerate(sorted({(s.pair.light, s.pair.heavy) for s in others})):
        mine = [s for s in others if (s.pair.light, s.pair.heavy) == pair]
        axes.plot(
            [s.cost_ms for s in mine], [worth[s] for s in mine], linestyle="", marker="x",
            color=series(len(pairs) + at)["color"], label=f"{' then '.join(pair)}, not offered by the catalog",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(lambda ms, _: f"{ms:g}" if f"{ms:g}"[0] in "25" else "")
    axes.set_xlabel("expected ms of a request, one by one (logarithmic)")
    axes.set_ylabel("quality of all answers")
    legend(axes, "lower right")
    return figure

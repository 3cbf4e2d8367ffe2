"""Draws a line through estimates with their intervals as bars."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from streams.pages.plots import gaps


def with_bars(
    axes: Axes, x: Sequence[float], rows: Sequence[Mapping[str, Any]], label: str, look: Mapping[str, Any]
) -> None:
    """A line through estimates (`value`, `ci`) with their intervals as bars."""
    value = gaps([row["value"] for row in rows])
    low, high = (gaps([row["ci"][end] for row in rows]) for end in (0, 1))
    below = [max(v - end, 0) if end == end else 0 for v, end in zip(value, low, strict=True)]
    above = [max(end - v, 0) if end == end else 0 for v, end in zip(value, high, strict=True)]
    axes.errorbar(
        x, value, yerr=[below, above], label=label, marker="o", markersize=4, elinewidth=1, capsize=0, **look,
    )  # fmt: skip

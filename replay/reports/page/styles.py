"""Styles of policies in plots: one colour, dash and mark per policy in every plot; the split by chance is grey."""

from collections.abc import Mapping
from typing import Any

from replay.reports.page.canvas import SOFT, line_style, marker

BASELINE_MARK = "X"

Report = Mapping[str, Any]


def style_of(report: Report, policy: str) -> dict[str, Any]:
    """Return colour and dash of a policy's lines."""
    if policy == report["baseline"]:
        return {"color": SOFT, "linestyle": (0, (1, 1.6))}
    return line_style(_place(report, policy))


def mark_of(report: Report, policy: str) -> str:
    """Return the shape of a policy's point."""
    return BASELINE_MARK if policy == report["baseline"] else marker(_place(report, policy))


def _place(report: Report, policy: str) -> int:
    return [name for name in report["policies"] if name != report["baseline"]].index(policy)

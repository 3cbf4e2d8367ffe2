"""The end of a demo on the terminal: the main figures, and the paths of its files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from replay.reports.reuse import rows as reuse_rows

if TYPE_CHECKING:
    from replay.demo import Demo


def rows(report: Mapping[str, Any]) -> dict[str, str]:
    """The report in a dozen lines."""
    latency = ", ".join(f"{rank} {_ms(value)}" for rank, value in report["latency_ms"].items())
    restarts = {role: count for role, count in report["restarts"].items() if count}
    first = report["first_picture_s"]
    return {
        "accepted": str(report["accepted"]),
        "outcomes": _counts(report["outcomes"]),
        "lost / duplicates": f"{report['lost']} / {report['duplicates']}",
        "by level": _counts(report["by_level"]),
        "escalated": f"{report['escalated']}, {report['painted_over']} of them over the draft",
        "latency": latency,
        "first image": "none" if first is None else f"{first:.1f} s after the command began",
        **reuse_rows(report),
        "policy": ", ".join(report["policies"]) + f" (plan {', '.join(map(str, report['plan_versions']))})",
        "restarts": _counts(restarts) if restarts else "none",
    }


def show(report: Mapping[str, Any], run: "Demo", console: Console) -> None:
    """Print it: a table on a terminal, aligned lines elsewhere."""
    lines = {**rows(report), "report": str(run.report_path), "gallery": str(run.gallery_path)}
    if not console.is_terminal:
        for name, value in lines.items():
            console.out(f"{name:<18}{value}", highlight=False)
        return
    table = Table(show_header=False, box=None)
    for name, value in lines.items():
        table.add_row(f"[dim]{name}[/]", value)
    console.print(table)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: -item[1])) or "none"


def _ms(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.1f} s"

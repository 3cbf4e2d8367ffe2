"""`pochade report compare | page`: compares two reports, or draws the page of one again."""

import json
import pathlib
from typing import TYPE_CHECKING, Any

import click

from streams.command_groups import CommandGroup
from streams.commands import listing
from streams.commands.options import FILE, SHOWN

if TYPE_CHECKING:  # loaded when a command runs
    from replay.reports.compare import Row

REPORT = click.Path(path_type=pathlib.Path)
SHORT = (  # what is compared without --all
    "violation_rate", "fid", "quality", "quality_in_slo", "heavy_share", "latency_s.p50", "latency_s.p95",
    "latency_s.p99", "utilization", "switches", "cost_worker_s",
)  # fmt: skip
COLUMNS = ("policy", "metric", "first", "second", "difference", "95 % interval", "second is")
COLOURS = {"better": "green", "worse": "red", "cannot tell": "dim", "not comparable": "dim"}


@click.group(cls=CommandGroup)
def report() -> None:
    """Compare two reports of `pochade simulate` or `pochade replay run`, or draw the page of one.

    \b
    Examples:
      pochade report compare before after
      pochade report page out/report.json
    """


@report.command()
@click.argument("first", type=REPORT)
@click.argument("second", type=REPORT)
@click.option(
    "--all",
    "has_all",
    is_flag=True,
    help="Compare every metric of replay/METRICS.md, not only the most important ones.",
)
@SHOWN
def compare(first: pathlib.Path, second: pathlib.Path, has_all: bool, output: str) -> None:
    """Show what is better or worse in report SECOND than in report FIRST, or cannot be distinguished, by policy.

    FIRST and SECOND are report.json files or their folders. Differences are second minus first with their 95 %
    interval: paired where both ran the same seeds, else by Welch's t. One seed cannot distinguish anything from chance.

    \b
    Examples:
      pochade report compare 16-workers 14-workers
      pochade report compare a/report.json b/report.json --all -o json
    """
    from replay.reports.compare import compare as compared
    from replay.reports.compare import scale_of
    from replay.reports.files import read

    old, new = read(first), read(second)
    comparison, scales = compared(old, new), (scale_of(old), scale_of(new))
    short = _short(comparison.rows)
    rows = comparison.rows if has_all else short
    if output == "json":
        facts = {"first": str(first), "second": str(second), "warnings": comparison.warnings}
        click.echo(json.dumps(facts | {"differences": [row._asdict() for row in rows]}, ensure_ascii=False, indent=2))
        return
    for warning in comparison.warnings:
        click.echo(f"warning: {warning}", err=True)
    listing.show([_line(row, scales) for row in rows], COLUMNS, output, COLOURS)
    for sentence in _sentences(short):
        click.echo(sentence)


def _short(rows: "list[Row]") -> "list[Row]":
    """Return the rows of the short table: quality only where it is not given as FID."""
    has_fid = any(row.metric == "fid" for row in rows)
    return [row for row in rows if row.metric in SHORT and not (has_fid and row.metric == "quality")]


def _line(row: "Row", scales: tuple[str, str]) -> dict[str, Any]:
    from replay.reports.metrics import metric, signed

    ends = (
        " to ".join(signed(row.metric, end) for end in row.interval).replace(" points to", " to")
        if row.interval
        else None
    )
    unit = metric(row.metric).unit
    name = metric(row.metric).label + (f" ({unit})" if unit in ("s", "worker s") else "")
    return {
        "policy": row.policy,
        "metric": name,
        "first": _shown(row, row.first, scales, scales[0]),
        "second": _shown(row, row.second, scales, scales[1]),
        "difference": None if row.difference is None else signed(row.metric, row.difference),
        "95 % interval": ends,
        "second is": row.verdict or None,
    }


def _shown(row: "Row", value: float, scales: tuple[str, str], scale: str) -> str:
    """Format a figure; with its scale, and FID as FID, where the two reports' qualities have different ones."""
    from replay.reports.metrics import FID, QUALITY, format_value, metric

    if metric(row.metric).unit != QUALITY or scales[0] == scales[1]:
        return format_value(row.metric, value)
    if scale == FID:
        return f"FID {format_value(FID, abs(value))}"
    return f"{value:.4f} {scale}"


def _sentences(rows: "list[Row]") -> list[str]:
    """Return one sentence per policy: how violations, quality and cost changed."""
    from replay.reports.compare import NO_JUDGEMENT
    from replay.reports.metrics import metric

    wanted = ("violation_rate", "fid", "quality", "cost_worker_s")
    said: dict[str, list[str]] = {}
    for row in rows:
        if row.metric in wanted and row.verdict != NO_JUDGEMENT:
            said.setdefault(row.policy, []).append(f"{metric(row.metric).label} {row.verdict}")
    return [f"{policy}, second against first: {', '.join(words)}" for policy, words in said.items()]


@report.command()
@click.argument("source", metavar="REPORT", type=REPORT)
@click.option(
    "--to",
    type=FILE,
    help="File to write the page to (default: report.html beside the report).",
)
def page(source: pathlib.Path, to: pathlib.Path | None) -> None:
    """Draw the page of REPORT again: a report.json, or the folder that holds one.

    \b
    Examples:
      pochade report page out
      pochade report page out/report.json --to page.html
    """
    from replay.reports.files import PAGE_NAME, read, write_text
    from replay.reports.page.render import render

    found = read(source)
    path = to or (source if source.is_dir() else source.parent) / PAGE_NAME
    write_text(path, render(found))
    click.echo(f"page: {path}")

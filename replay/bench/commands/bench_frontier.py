"""`pochade bench frontier`: policies on a grid of catalogs, traces and truths, with arrivals redrawn."""

import json
import pathlib
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streams.as_typed import RepeatableCommand
from streams.commands.options import output_option

if TYPE_CHECKING:  # loaded when the bench runs
    from replay.bench.frontier.grid import GridCell
    from replay.bench.frontier.plan import Part
    from replay.bench.frontier.repeated import Repeated
    from replay.bench.frontier.run import TraceFiles
    from replay.bench.frontier.tables import Row

F = TypeVar("F", bound="Callable[..., Any]")
FOLDER = click.Path(exists=True, file_okay=False, path_type=pathlib.Path)
OUT = click.Path(file_okay=False, path_type=pathlib.Path)
FILE = click.Path(dir_okay=False, path_type=pathlib.Path)
SUMMARY = ("truth", "judge", "comparisons", "ahead", "even", "behind", "undecided", "worst")
COLUMNS = (
    "truth", "judge", "catalog", "trace", "violations up to", "ours", "best other", "quality ahead", "verdict",
)  # fmt: skip
FAILURES = ("catalog", "policy", "failures", "in runs", "of runs")
COLOURS = {"ahead": "green", "behind": "red"}


def _several(name: str, help: str) -> "Callable[[F], F]":
    return click.option(f"--{name}", f"{name}s", multiple=True, metavar="NAME", help=f"{help}; may be repeated.")


@click.command(cls=RepeatableCommand)
@click.option(
    "--traces",
    "published",
    type=FOLDER,
    help="Folder of the published traces (default: generated traces of the same shape).",
)
@click.option(
    "--out",
    type=OUT,
    default="frontier",
    show_default=True,
    help="Folder that results are kept in, and taken up from where a run was broken off.",
)
@click.option(
    "--tune",
    "is_tuning",
    is_flag=True,
    help="Choose each policy's settings on the tuning traces, and write them to settings.toml in the folder --out.",
)
@click.option(
    "--settings", "settings", type=FILE, help="File of chosen settings to compare (default: the one that ships)."
)
@_several("catalog", "Run only this catalog")
@_several("trace", "Run only this trace")
@_several("truth", "Run only this truth: catalog, slow or curve")
@click.option("--policy", "policies", multiple=True, metavar="NAME", help="Run only this policy; may be repeated.")
@click.option("--redraws", type=click.IntRange(1, 1000), help="Number of redraws of the arrivals (default: 10).")
@click.option(
    "--seed",
    "first_seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Seed of the first redraw; redraw k uses seed + k, counted from 0.",
)
@click.option(
    "--commands",
    "shows_commands",
    is_flag=True,
    help="Print the `pochade simulate` command of each cell that is asked for, and run none.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Run two policies on a few requests, to test that all of it runs; the figures mean nothing.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Number of processes that simulate."
)
@click.option(
    "--against",
    "other",
    type=FOLDER,
    help="Folder --out of another run with other seeds: print the share of comparisons whose sign is the same in both, "
    "and those that turned beyond chance; exit status 1 where too few are kept or one turned.",
)
@click.option("--page", type=FILE, help="Markdown file to write the comparisons to.")
@output_option("Output format: tables, or one JSON document.", "table", "json")
@click.pass_context
def frontier(
    context: click.Context, /, published: pathlib.Path | None, out: pathlib.Path, is_tuning: bool,
    settings: pathlib.Path | None, catalogs: tuple[str, ...], traces: tuple[str, ...], truths: tuple[str, ...],
    policies: tuple[str, ...],
    redraws: int | None, first_seed: int, shows_commands: bool, quick: bool, jobs: int, other: pathlib.Path | None,
    page: pathlib.Path | None, output: str,
) -> None:  # fmt: skip
    """Compare joint with the best other policy at equal violations, on a grid of catalogs, traces and truths.

    Needs no broker. Results are kept in the folder --out as they come: Ctrl-C loses none, and the same command goes on.
    Settings of all policies are chosen with an equal budget on three of the six traces, and ship.

    \b
    Examples:
      pochade bench frontier --quick
      pochade bench frontier --traces FOLDER --tune
      pochade bench frontier --traces FOLDER --catalog hadis-l40s --truth catalog --page FRONTIER.md
      pochade bench frontier --commands --catalog tiny --trace azure-1to8 --policy joint
      pochade bench frontier --traces FOLDER --seed 10 --out again --against frontier
    """
    from replay.bench.frontier.grid import REDRAWS
    from replay.bench.frontier.plan import QUICK_REDRAWS, QUICK_REQUESTS, Part
    from replay.bench.frontier.run import TraceFiles
    from replay.reports.provenance import describe_run

    count = redraws or (QUICK_REDRAWS if quick else REDRAWS)
    part = Part(
        catalogs=catalogs, traces=traces, truths=truths, policies=policies, redraws=count, first_seed=first_seed
    )
    cells = _cells(part, settings, is_tuning=is_tuning, quick=quick)
    if not cells:
        raise click.UsageError("no cell of the grid is left: ask for less")
    files = TraceFiles(out / "traces", published, _names(cells), QUICK_REQUESTS if quick else None)
    if shows_commands:
        _show_commands(cells, files)
        return
    results = _run(cells, files, published, out, jobs)
    if is_tuning:
        _write_settings(results, out)
    else:
        cpu_hours = sum(figures["cpu_s"] for _, figures in results) / 3600
        made = {"redraws": count, "quick": quick, "cells": len(results), "cpu_hours": round(cpu_hours, 3)}
        made |= {"command": describe_run(context)["command"]}
        again = None if other is None else _repeated(results, other, files.limit, published)
        _show(results, output, page, made, again)
        if again is not None and not again.holds:
            raise SystemExit(1)


def _repeated(
    results: "list[tuple[GridCell, dict[str, float]]]", folder: pathlib.Path, limit: int | None,
    published: pathlib.Path | None,
) -> "Repeated":  # fmt: skip
    from replay.bench.frontier.code_state import digest_of
    from replay.bench.frontier.repeated import other_results, repeated

    others = other_results(folder, digest_of(limit, published), [cell for cell, _ in results])
    return repeated(_rows(results), _rows(others))


def _rows(results: "list[tuple[GridCell, dict[str, float]]]") -> "list[Row]":
    from replay.bench.frontier.tables import compare
    from streams.catalogs import measured

    return compare(results, {catalog: measured(catalog).scale for catalog in {cell.catalog for cell, _ in results}})


def _names(cells: "list[GridCell]") -> list[str]:
    return list(dict.fromkeys(cell.trace for cell in cells))


def _cells(part: "Part", settings: pathlib.Path | None, *, is_tuning: bool, quick: bool) -> "list[GridCell]":
    from replay.bench.frontier import tuning
    from replay.bench.frontier.grid import FLEETS
    from replay.bench.frontier.plan import judged_cells, quick_settings, tuning_cells

    if is_tuning:
        return tuning_cells(part)
    if settings is None and quick:
        return judged_cells(part, quick_settings([fleet.catalog for fleet in FLEETS]))
    return judged_cells(part, tuning.read(settings or tuning.COMMITTED))


def _show_commands(cells: "list[GridCell]", files: "TraceFiles") -> None:
    from replay.bench.frontier.cells import command_of

    for cell in cells:
        click.echo(f"# {cell.key}\n{command_of(files.arguments(cell))}")


def _run(
    cells: "list[GridCell]", files: "TraceFiles", published: pathlib.Path | None, out: pathlib.Path, jobs: int
) -> "list[tuple[GridCell, dict[str, float]]]":
    from replay.bench.frontier.code_state import digest_of
    from replay.bench.frontier.results import ResultStore
    from replay.bench.frontier.run import run_cells

    with _bar() as on_cell, ResultStore(out, digest_of(files.limit, published)) as store:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # its processes end with it, as by Ctrl-C
        try:
            found = run_cells(cells, files, store, jobs, on_cell)
        except KeyboardInterrupt:
            done = sum(cell.key in store.known for cell in cells)
            click.echo(f"\n{done} of {len(cells)} cells are kept in {out}; the same command goes on", err=True)
            raise SystemExit(130) from None
    return [(cell, found[cell.key]) for cell in cells]


def _write_settings(results: "list[tuple[GridCell, dict[str, float]]]", out: pathlib.Path) -> None:
    from replay.bench.frontier import tuning

    chosen, file = tuning.choose(results), out / tuning.COMMITTED.name
    tuning.write(chosen, file)
    count = sum(len(settings) for settings in chosen.values())
    click.echo(f"{count} settings of {len(chosen)} catalogs, chosen from {len(results)} runs: {file}")


def _show(
    results: "list[tuple[GridCell, dict[str, float]]]", output: str, page: pathlib.Path | None, made: dict[str, Any],
    again: "Repeated | None",
) -> None:  # fmt: skip
    from replay.bench.frontier.repeated import in_words
    from replay.bench.frontier.tables import failures_of, lines_of, page_of, record, summary
    from streams.commands import listing

    rows, failures = _rows(results), failures_of(results)
    if page is not None:
        page.write_text(page_of(rows, made, failures), encoding="utf-8")
    if output == "json":
        click.echo(json.dumps(
            {"bench": "frontier", **made, "summary": summary(rows), "failures": failures, "comparisons": record(rows)}
            | ({"repeated": again.record()} if again is not None else {})
        ))  # fmt: skip
        return
    if made["quick"]:
        click.echo("a quick run: the figures mean nothing")
    listing.show(lines_of(rows), COLUMNS, output, COLOURS)
    click.echo("")
    listing.show(summary(rows), SUMMARY, output)
    if failures:
        click.echo("\nfailed to plan, so that the plan before stayed in force:")
        listing.show(failures, FAILURES, output)
    if again is not None:
        click.echo("\n" + "\n".join(in_words(again)))


@contextmanager
def _bar() -> "Iterator[Callable[[int, int], object]]":
    """A bar of cells done, with the time that is left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("cells", total=None)
        yield lambda done, total: progress.update(task, total=total, completed=done)

"""`pochade profile cascades`: the table of settings to plan a pair with, from what `profile` measured."""

import pathlib
from typing import TYPE_CHECKING

import click

from agents.commands.options import CATALOG
from streams.cli import LazySettings
from streams.commands.options import FILE_IN, Number

if TYPE_CHECKING:
    from agents.profiling.cascades.table import Choice
    from planner.catalog.model import Catalog
    from planner.catalog.profile import SweptTable


@click.command(epilog="\b\nExamples:\n  pochade profile cascades --catalog tiny")
@CATALOG
@click.option(
    "--profile",
    "file",
    type=FILE_IN,
    help="Profile to sweep: NAME.json of `profile`, with NAME-quality.npz beside it (default: the catalog's own).",
)
@click.option(
    "--sure",
    type=Number(0, 10),
    default=1.0,
    show_default=True,
    help="Number of standard errors by which a row must be better than each cheaper one.",
)
@click.option(
    "--resamples",
    type=click.IntRange(100, 100_000),
    default=1000,
    show_default=True,
    help="Number of bootstrap resamples for the intervals of quality.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Random seed of the bootstrap resamples."
)
@click.option("--dry-run", is_flag=True, help="Show the table, but do not write it into the profile.")
@click.pass_obj
def cascades(
    obj: LazySettings, name: str | None, file: pathlib.Path | None, sure: float, resamples: int, seed: int,
    dry_run: bool,
) -> None:  # fmt: skip
    """Sweep router, discriminator and start step of every pair of levels; keep the settings that no other one beats.

    Reads the profile of a catalog and writes the rows into it as `settings`: share sent straight to heavy, share
    escalated, start step of the refinement, expected time, and quality with its 95 % interval. No image is generated;
    the sweep takes seconds. Rows are chosen and judged on the same prompts, so that their quality is a little too good:
    the command says by how much. A pair can be swept if the images of its first level were judged; the planner uses it
    if the catalog offers it.
    """
    from agents.profiling.cascades.table import Choice
    from agents.profiling.statistics.intervals import Resampling
    from streams import catalogs

    catalog_name = name or obj().catalog
    choice = Choice(sure, Resampling(seed=seed, resamples=resamples))
    swept(catalogs.load(catalog_name), file or _own(catalog_name), choice, is_kept=not dry_run)


def swept(catalog: "Catalog", file: pathlib.Path, choice: "Choice", is_kept: bool) -> None:
    """Sweep a profile, print the result and, if it `is_kept`, write it into the profile.

    Raises PochadeError where there are no measurements to sweep.
    """
    from agents.profiling.cascades.sweep import sweep
    from agents.profiling.cascades.table import of_catalog_cascades, remarks, table_of, with_table
    from agents.profiling.generation.pool import progress_bar
    from agents.profiling.machine import provenance
    from schemas.errors import PochadeError
    from streams.catalogs import read_profile

    files = read_profile(file)
    profile, prompts = files.profile(), files.prompts()
    if prompts is None:
        raise PochadeError(f"{file} has no {file.stem}-quality.npz beside it: measure with `pochade profile`")
    with progress_bar() as bar:
        task = bar.add_task("sweeping", total=None)
        seen = sweep(catalog, profile, prompts, lambda pair: bar.update(task, description=f"sweeping {pair}"))
        bar.update(task, description="choosing rows")
        mine = of_catalog_cascades(seen, catalog)
        if not mine.settings:
            raise PochadeError(
                f"nothing to sweep in {file}: it has no cascade whose drafts were judged and whose levels are both"
                " worth their cost; profile one first"
            )
        table = table_of(mine, catalog, choice, provenance())
    _report(table, remarks(seen, catalog, table))
    if is_kept:
        file.write_text(with_table(files.text, table, files.file))
        click.echo(f"written into {file}")


def _own(catalog: str) -> pathlib.Path:
    from schemas.errors import PochadeError
    from streams.catalogs import find_profile

    found = find_profile(catalog)
    if found is None:
        raise PochadeError(f"catalog {catalog!r} has no profile to sweep: measure it with `pochade profile`")
    return pathlib.Path(found.file)


def _report(table: "SweptTable", remarks: list[str]) -> None:
    click.echo(f"{'':>3} {'pair':<18} {'hardness':>8} {'thresh.':>8} {'step':>4} {'straight':>8} {'again':>6} {'ms':>7}"
               f" {'quality, 95 %':>22} {'prompts':>8}")  # fmt: skip
    for at, (row, low, high, prompts) in enumerate(table.rows, 1):
        shares = f"{row.router_ratio:>8.0%} {row.light_share * row.disc_ratio:>6.0%}"
        click.echo(
            f"{at:>3} {row.light + ' > ' + row.heavy:<18} {row.hardness:>8.2f} {row.threshold:>8.4g} "
            f"{row.refine_from_step:>4} {shares} {row.latency_ms:>7.4g}  {row.quality:.4f} ({low:.4f} {high:.4f})"
            f" {prompts:>8}"
        )
    for line in remarks:
        click.echo(line, err=True)

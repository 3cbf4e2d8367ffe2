"""`pochade bench validate RUN`: a live run simulated again, beside what really happened."""

import pathlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError, Unknown
from streams.commands.known_names import CatalogOption
from streams.commands.options import FOLDER, Number

if TYPE_CHECKING:  # loaded when the command runs: --help need not wait for numpy and the planner
    from rich.table import Table

    from replay.bench.validation import ComparedFigure


@click.command()
@click.argument("run", type=FOLDER)
@click.option(
    "--measured",
    type=FOLDER,
    metavar="RUN",
    help="Folder of a live run whose times between processes are used (default: those of RUN itself), scaled to RUN's "
    "machine where both ran with --speed-probe.",
)
@click.option(
    "--catalog",
    cls=CatalogOption,
    metavar="NAME",
    help="Catalog that the run was served with (default: the one that it names).",
)
@click.option(
    "--within",
    type=Number(0, 1, min_open=True),
    default=0.1,
    show_default=True,
    help="Relative difference of latencies that is accepted; the limits of other figures scale with it.",
)
def validate(run: pathlib.Path, **asked: Any) -> None:
    """Simulate a live run of `pochade replay run` again, and compare both.

    \b
    Examples:
      pochade bench validate .pochade/replay/1122-0900
      pochade bench validate busy --measured quiet --within 0.2
    """
    show(run, **asked)


def show(path: pathlib.Path, measured: pathlib.Path | None, catalog: str | None, within: float) -> None:
    """Simulate a live run and print both. `measured`: the run whose hop latencies are used (its own for None).

    Raises:
        PochadeError: no live run, or the two do not agree.
    """
    from rich.console import Console

    from replay.bench.validation import TIMES, compare_figures, measured_elsewhere, simulated
    from replay.load.record.folder import read_run
    from replay.simulation.shipped_latencies import hop_latencies
    from streams import catalogs

    run = read_run(path)
    hops = hop_latencies(run.report, by_time=True)
    if measured:  # but for the planner's times, which are given as its looks are: other policies solve other problems
        hops = replace(measured_elsewhere(read_run(measured).report, run.report), plan=hops.plan)
    setup, console = run.report["setup"], Console()
    policy, live = next(iter(run.report["policies"].items()))
    try:
        served = catalogs.measured(catalog or setup["catalog"])
    except Unknown as error:
        hint = "" if catalog else f"; the run's catalog was a file, {setup['catalog']}.toml: add --catalog FILE"
        raise PochadeError(f"{error}{hint}") from error
    rows = compare_figures(live, simulated(run, served, hops), within / 0.10)
    console.print(
        f"{policy}, {setup['workers']} workers, catalog {catalog or setup['catalog']}, {run.report['trace']['file']}: "
        f"{live['requests']} requests; times between processes of {measured or 'this run'}",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    console.print(_table(rows))
    console.print(
        f"simulated: median and range of {TIMES} runs, which differ in what is unknown of the live one: its planner's "
        "looks that changed nothing, and every time between processes",
        highlight=False, soft_wrap=True,
    )  # fmt: skip
    apart = [row.name + (" (within the range)" if row.is_chance else "") for row in rows if not row.is_within]
    if apart:
        raise PochadeError(
            f"live and simulated differ in {', '.join(apart)}: the simulation does not hold for this run"
        )
    console.print("the simulation agrees with the live run")


def _table(rows: "list[ComparedFigure]") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("", "live", "simulated", "from", "to", "apart", "at most"):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for row in rows:
        form = "{:.4f} s" if row.name.endswith("latency") else "{:.2%}"
        style = "" if row.is_within else "bold red"
        numbers = [form.format(value) for value in (row.live, row.simulated, row.least, row.most)]
        table.add_row(row.name, *numbers, f"{row.apart:+.1%}", f"{row.limit:.0%}", style=style)
    return table

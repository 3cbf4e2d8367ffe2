"""`pochade bench genai2026`: the effect of placing components by demand on a public trace, simulated."""

import json
import pathlib
from functools import partial
from typing import Any

import click

from replay.bench.commands.measuring import OUTPUT, lines
from replay.commands.options import seed_option
from streams.commands.known_names import PolicyOption
from streams.commands.options import FOLDER, POSITIVE, Number


@click.command()
@click.argument("folder", type=FOLDER)
@click.option(
    "--speed",
    "speeds",
    type=POSITIVE,
    multiple=True,
    default=(1.0, 40.0),
    show_default=True,
    help="Factor by which the trace is replayed faster; may be repeated.",
)
@click.option(
    "--pairs",
    type=click.IntRange(2, 1000),
    default=5,
    show_default=True,
    help="Number of stretches of the trace, each replayed under both policies.",
)
@click.option(
    "--requests", type=click.IntRange(10), default=2000, show_default=True, help="Number of requests of each stretch."
)
@click.option(
    "--workers", type=click.IntRange(1, 100_000), default=16, show_default=True, help="Number of simulated workers."
)
@click.option(
    "--controls",
    type=Number(0, 1),
    default=0.0,
    show_default=True,
    help="Share of the requests that get a ControlNet, drawn; the public files name none.",
)
@click.option("--policy", "ours", cls=PolicyOption, help="Policy to measure (default: the study's).")
@click.option("--baseline", cls=PolicyOption, help="Policy to compare it with (default: the study's baseline).")
@seed_option("the first stretch; stretch k uses seed + k, counted from 0")
@OUTPUT
def genai2026(folder: pathlib.Path, output: str, **asked: Any) -> None:
    """Compare two policies on GenTD26 (Alibaba cluster-trace-v2026-GenAI) in FOLDER, by bytes moved, loads and latency.

    Needs no broker. Times and users are drawn (`replay/bench/traces/gentd26_folder.py`), nothing is dropped. Bytes over
    the network and p99 have a verdict, ahead or behind where chance alone would seldom make such a difference, both
    questions taken together; the other figures have their intervals.

    \b
    Examples:
      pochade bench genai2026 data/genai2026
      pochade bench genai2026 data/genai2026 --speed 40 --pairs 10 -o json
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from replay.bench.genai import Asked, measure, read_files
    from streams.catalogs import measured

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    asked = {name: value for name, value in asked.items() if value is not None}
    options = Asked(**asked)
    files, catalog = read_files(folder), measured("genai2026")
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        runs = 2 * options.pairs * len(options.speeds)
        task = progress.add_task("requests", total=runs * min(options.requests, len(files)))
        found = measure(files, catalog, options, partial(progress.advance, task))
    report = {"bench": "genai2026", "asked": asked, "engine": "simulated", **found}
    click.echo(json.dumps(report) if output == "json" else "\n".join(lines(report)))

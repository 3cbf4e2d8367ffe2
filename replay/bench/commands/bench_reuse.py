"""`pochade bench reuse`: what approximate caching saves, loses and costs on fresh prompts."""

import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from replay.bench.commands.measuring import OUTPUT, lines
from replay.commands.options import seed_option
from streams.commands.options import FILE_IN

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings


@click.command()
@click.option(
    "--prompts",
    "file",
    type=FILE_IN,
    help="List of the prompts of the stream in their order, as `submit --file` reads it (default: drawn, to repeat "
    "and be edited as people's are).",
)
@click.option(
    "--requests",
    type=click.IntRange(1),
    default=400,
    show_default=True,
    help="Number of requests of the stream; the interval of what is lost takes about 1,200.",
)
@click.option(
    "--images",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="Number of images with reuse and without it, where nothing repeats.",
)
@click.option(
    "--rows",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="Number of rows that lookups search among, for their time and cost.",
)
@click.option(
    "--lookups",
    type=click.IntRange(1),
    default=400,
    show_default=True,
    help="Number of lookups to time while other processes keep torch busy.",
)
@click.option(
    "--busy",
    type=click.IntRange(0, 256),
    help="Number of processes that keep torch busy while lookups are timed (default: one for each other core).",
)
@click.option(
    "--store",
    type=click.Choice(["lite", "exact"]),
    help="Vector store to measure with (default: the one that vectors.url names, else lite).",
)
@seed_option("the stream and of all other prompts", 2)
@OUTPUT
@click.pass_obj
def reuse(
    load: "Callable[[], Settings]", /, file: pathlib.Path | None, store: str | None, output: str, **effort: int | None
) -> None:
    """Measure what beginning from stored latents saves and loses on fresh prompts, and what it costs.

    Needs no broker. Floors and guard are those of the catalog's profile (`pochade profile --reuse`); without them
    nothing is reused, and only pairs, costs and times are measured. Every hit is generated again without reuse, with
    the same seed: in all steps, and in as many steps as it took.

    \b
    Examples:
      pochade bench reuse
      pochade bench reuse --requests 1200 --store exact -o json
      pochade bench reuse --prompts prompts.txt
    """
    import signal

    from replay.bench.environment.figures import Conditions
    from replay.bench.reuse import run
    from replay.commands.demo import leave
    from replay.load.prompts import read_prompts

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    prompts, settings, conditions = read_prompts(file) if file else [], load(), Conditions()
    measured = run(settings, effort, prompts, store or "")
    asked = {**effort, "prompts": str(file) if file else None, "store": store}
    report = {"bench": "reuse", "asked": asked, **measured, **conditions.as_table(settings)}
    click.echo(json.dumps(report) if output == "json" else "\n".join(_table(report)))


def _table(report: Mapping[str, Any]) -> Iterator[str]:
    """The note first, if there is one; then a figure a line."""
    if report["note"]:
        yield report["note"]
    yield from lines({name: value for name, value in report.items() if name != "note"})

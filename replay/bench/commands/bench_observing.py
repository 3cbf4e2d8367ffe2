"""`pochade bench observing`: what metrics and tracing cost."""

from typing import TYPE_CHECKING, Any

import click

from replay.bench.commands.measuring import OUTPUT, measure
from streams.commands.options import Number

if TYPE_CHECKING:  # loaded when the bench runs: --help need not wait for Kafka's client
    from collections.abc import Callable

    from streams.settings import Settings

COUNT = click.IntRange(min=10)


@click.command()
@click.option("--count", type=COUNT, default=4000, show_default=True, help="Number of records of each portion.")
@click.option(
    "--portions",
    type=click.IntRange(2, 50),
    default=16,
    show_default=True,
    help="Number of portions that each router places.",
)
@click.option(
    "--requests",
    type=COUNT,
    default=300,
    show_default=True,
    help="Number of requests to the traced pipeline, and as many to the other one.",
)
@click.option(
    "--rate",
    type=Number(0.1, 20),
    default=5.0,
    show_default=True,
    help="Number of requests per second to each pipeline.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Number of requests to each pipeline before the measurement begins.",
)
@OUTPUT
@click.pass_obj
def observing(load: "Callable[[], Settings]", /, output: str, **asked: Any) -> None:
    """Measure what metrics cost a router, and tracing at 1 in 10 a request, each against the same without.

    \b
    Examples:
      pochade bench observing
      pochade bench observing --portions 4 --requests 100 -o json
    """
    from replay.bench.observing import run

    measure("observing", lambda site: run(site, **asked), load(), asked, output)

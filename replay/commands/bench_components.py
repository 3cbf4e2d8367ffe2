"""`pochade bench components`: what changing bases and adapters costs a worker, and how often it finds them."""

import json
from typing import TYPE_CHECKING

import click

from replay.commands.measuring import OUTPUT, lines
from replay.commands.options import seed_option

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from collections.abc import Callable

    from streams.settings import Settings


@click.command()
@click.option("--variant", default="styles", show_default=True, help="Name of a variant that lists bases and adapters.")
@click.option(
    "--blocks",
    type=click.IntRange(2, 1000),
    default=10,
    show_default=True,
    help="Number of blocks of six requests on each side: three adapters in turn, and one.",
)
@click.option(
    "--requests",
    type=click.IntRange(10, 100_000),
    default=200,
    show_default=True,
    help="Number of requests of the stream that counts hits; nothing is generated for them.",
)
@seed_option("the stream of requests", 1)
@OUTPUT
@click.pass_obj
def components(
    load: "Callable[[], Settings]", variant: str, blocks: int, requests: int, seed: int, output: str
) -> None:
    """Measure requests with three adapters in turn on one base against one adapter, and hit rates by tier.

    Needs no broker. Times are CPU time. Fused weights are compared with the adapter's layers beside the base. Hits are
    those of a skewed stream on a device with room for two bases, by rule of eviction.

    \b
    Examples:
      pochade bench components
      pochade bench components --blocks 20 -o json
    """
    from replay.bench.components import run
    from replay.bench.environment.figures import Conditions

    settings, conditions = load(), Conditions()
    asked = {"variant": variant, "blocks": blocks, "requests": requests, "seed": seed}
    measured = run(settings.catalog, variant, blocks, requests, seed)
    report = {"bench": "components", "asked": asked, **measured, **conditions.as_table(settings)}
    click.echo(json.dumps(report) if output == "json" else "\n".join(lines(report)))

"""`pochade bench components`: what changing bases and adapters costs a worker, and how often it finds them."""

import json
import pathlib
from typing import TYPE_CHECKING

import click

from replay.bench.commands.measuring import OUTPUT, lines
from replay.commands.options import seed_option
from streams.commands.options import FILE

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
@click.option(
    "--memory-requests",
    type=click.IntRange(0, 1_000_000),
    default=0,
    show_default=True,
    help="Number of requests, generated in one step, over all combinations whose memory is measured (0: none).",
)
@click.option("--plot", type=FILE, help="SVG file to write the plot of --memory-requests to.")
@seed_option("the stream of requests", 1)
@OUTPUT
@click.pass_obj
def components(
    load: "Callable[[], Settings]", variant: str, blocks: int, requests: int, memory_requests: int,
    plot: pathlib.Path | None, seed: int, output: str,
) -> None:  # fmt: skip
    """Measure requests with three adapters in turn on one base against one adapter, and hit rates by tier.

    Needs no broker. Times are CPU time. Fused weights are compared with the adapter's layers beside the base. Hits are
    those of a skewed stream on a device with room for two bases, by rule of eviction. Memory is that of a worker whose
    volume, host memory and device hold a part of the components: resident bytes, and those of each tier.

    \b
    Examples:
      pochade bench components
      pochade bench components --blocks 20 -o json
      pochade bench components --memory-requests 2000 --plot memory.svg
    """
    from replay.bench.components import plot_of, run
    from replay.bench.environment.figures import Conditions

    settings, conditions = load(), Conditions()
    if plot and not memory_requests:
        raise click.UsageError("--plot draws what --memory-requests measures: give both, or neither")
    asked = {"variant": variant, "blocks": blocks, "requests": requests, "seed": seed}
    asked |= {"memory_requests": memory_requests} if memory_requests else {}
    measured = run(settings.catalog, variant, blocks, requests, seed, memory_requests)
    if plot:
        plot.write_text(plot_of(measured["memory"]))
    if output == "table":
        measured.get("memory", {}).pop("samples", None)
    report = {"bench": "components", "asked": asked, **measured, **conditions.as_table(settings)}
    click.echo(json.dumps(report) if output == "json" else "\n".join(lines(report)))

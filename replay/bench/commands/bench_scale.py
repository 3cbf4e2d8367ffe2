"""`pochade bench scale`: a burst met by a fleet that grows, with and without a warm pool, in simulation."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from replay.bench.commands.measuring import OUTPUT, lines
from streams.commands.options import Number

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings


@click.command()
@click.option(
    "--catalog",
    default="profile",
    show_default=True,
    metavar="NAME|FILE",
    help="Catalog whose best variant serves all requests.",
)
@click.option(
    "--workers", type=click.IntRange(1, 1024), default=8, show_default=True, help="Number of workers at the start."
)
@click.option(
    "--times",
    type=Number(1, 100),
    default=8.0,
    show_default=True,
    help="Rate of the burst of 60 s, by the rate before it, which keeps the workers busy for 0.6 of their time.",
)
@click.option(
    "--max-workers", type=click.IntRange(1, 1024), default=64, show_default=True, help="Largest number of workers."
)
@click.option(
    "--warm", type=click.IntRange(0, 1024), default=8, show_default=True, help="Number of workers of the warm pool."
)
@click.option(
    "--period",
    "period_s",
    type=Number(0.1, 600),
    default=2.0,
    show_default=True,
    help="Time between decisions of scaling, in seconds.",
)
@click.option(
    "--start",
    "start_s",
    type=Number(0.01, 3600),
    default=20.0,
    show_default=True,
    help="Time in seconds until a worker that is started anew is ready for a variant (`pochade bench loader`).",
)
@click.option(
    "--after",
    "after_s",
    type=Number(1, 86_400),
    default=600.0,
    show_default=True,
    help="Length of the calm after the burst, in seconds; the longer, the fewer workers cost as much.",
)
@click.option(
    "--slo",
    "slo_s",
    type=Number(0.01, 3600),
    default=5.0,
    show_default=True,
    help="Latency in seconds within which an answer is in time.",
)
@click.option(
    "--seeds", type=click.IntRange(1, 100), default=3, show_default=True, help="Number of runs, each with own arrivals."
)
@OUTPUT
@click.pass_obj
def scale(load: "Callable[[], Settings]", /, catalog: str, output: str, **asked: Any) -> None:
    """Measure scaling in simulation: a burst with and without a warm pool, constant load, pull against push.

    Baselines are a fleet that stays as it is and costs as many worker-seconds, and a load balancer that pushes.

    \b
    Examples:
      pochade bench scale
      pochade bench scale --start 2 --warm 0 -o json
    """
    from replay.bench.environment.figures import Conditions
    from replay.bench.scale import Asked, run
    from streams import catalogs

    conditions = Conditions()
    measured = run(catalogs.load(catalog), Asked(**asked), lambda text: click.echo(text, err=True))
    report = {"bench": "scale", "asked": {"catalog": catalog, **asked}, **measured, **conditions.as_table(load())}
    click.echo(json.dumps(report) if output == "json" else "\n".join(lines(report)))

"""`pochade bench gateway | gateway-cost`: the error of the predicted time, and what the gateway adds to a request."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from replay.bench.commands.measuring import OUTPUT, measure
from streams.commands.options import Number

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings


@click.command()
@click.option("--seconds", type=Number(2, 3600), default=60.0, show_default=True, help="Length of the run, in seconds.")
@click.option(
    "--rate",
    type=Number(0.1, 100),
    default=6.0,
    show_default=True,
    help="Number of predictions submitted per second.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 8),
    default=2,
    show_default=True,
    help="Number of simulated workers of heavy, each of which takes 200 ms per image.",
)
@click.option(
    "--light-workers",
    type=click.IntRange(0, 8),
    default=0,
    show_default=True,
    help="Number of simulated workers of light, each of which takes 20 ms per image.",
)
@click.option(
    "--light",
    type=Number(0, 1),
    default=0.0,
    show_default=True,
    help="Share of the predictions whose first image light generates.",
)
@click.option(
    "--threshold",
    type=Number(0, 1),
    default=0.0,
    show_default=True,
    help="Share of light's images that are escalated to heavy.",
)
@OUTPUT
@click.pass_obj
def gateway(load: "Callable[[], Settings]", /, output: str, **asked: Any) -> None:
    """Measure the error of the time that the gateway predicts at submit, on the `profile` engine at a steady rate.

    \b
    Examples:
      pochade bench gateway
      pochade bench gateway --light-workers 1 --light 0.5
      pochade bench gateway --light-workers 1 --light 1 --threshold 0.2 -o json
    """
    if asked["light"] and not asked["light_workers"]:
        raise click.UsageError(f"--light {asked['light']} needs --light-workers of at least 1")
    from replay.bench.gateway.expected import run

    measure("gateway", lambda site: run(site, **asked), load(), asked, output)


@click.command("gateway-cost")
@click.option(
    "--count",
    type=click.IntRange(min=10),
    default=300,
    show_default=True,
    help="Number of requests by HTTP, and as many by Kafka.",
)
@click.option(
    "--rate",
    type=Number(0.1, 20),
    default=4.0,
    show_default=True,
    help="Number of requests per second by HTTP, and as many by Kafka.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, 900),
    default=500,
    show_default=True,
    help="Number of HTTP requests that wait at once while the gateway's memory is measured.",
)
@OUTPUT
@click.pass_obj
def gateway_cost(load: "Callable[[], Settings]", /, output: str, **asked: Any) -> None:
    """Measure what the gateway adds to a request by Kafka, its CPU time, and its memory for clients that wait.

    \b
    Examples:
      pochade bench gateway-cost
      pochade bench gateway-cost --count 100 --connections 50 -o json
    """
    from replay.bench.gateway.cost import run

    measure("gateway-cost", lambda site: run(site, **asked), load(), asked, output)

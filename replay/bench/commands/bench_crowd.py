"""`pochade bench crowd flood | greedy | storm`: what some clients cost the others."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from replay.bench.commands.measuring import OUTPUT, measure
from streams.commands.options import Number

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings


@click.command()
@click.argument("question", type=click.Choice(["flood", "greedy", "storm"]))
@click.option(
    "--seconds",
    type=Number(2, 3600),
    default=60.0,
    show_default=True,
    help="Length of each phase, in seconds.",
)
@click.option(
    "--rate",
    type=Number(0.1, 100),
    default=3.0,
    show_default=True,
    help="Number of requests per second from the clients whose latency is measured.",
)
@click.option(
    "--times",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    help="Number of the crowd's requests for each request of the measured clients.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 4),
    default=4,
    show_default=True,
    help="Number of simulated workers, each of which takes 200 ms per image.",
)
@OUTPUT
@click.pass_obj
def crowd(load: "Callable[[], Settings]", /, question: str, output: str, **asked: Any) -> None:
    """Measure what a crowd of clients costs the others, on the `profile` engine: calm first, then crowded.

    \b
    flood   Many batch requests: how much later do interactive requests end?
    greedy  Many requests of one tenant: what is refused to another tenant, and how long does it wait?
    storm   Retries of the same requests: is any generated, charged or answered twice?

    \b
    Examples:
      pochade bench crowd flood
      pochade bench crowd greedy --seconds 30 --times 20 -o json
    """
    from replay.bench.crowd.crowd import Asked

    run = import_module(f"replay.bench.crowd.{question}").run
    measure("crowd", lambda site: run(site, Asked(**asked)), load(), {"question": question, **asked}, output)

"""`pochade bench in-flight`: a worker's throughput on a server of others."""

import json
from typing import Any

import click

from replay.bench.commands.measuring import OUTPUT, lines
from streams.commands.options import Number


@click.command("in-flight")
@click.option(
    "--calls", type=click.IntRange(1, 64), default=8, show_default=True, help="Number of requests in flight at once."
)
@click.option(
    "--service-s", type=Number(0.001, 60), default=0.5, show_default=True,
    help="Time that the server takes for an image, in seconds.",
)  # fmt: skip
@click.option(
    "--jitter", type=Number(0, 0.9), default=0.3, show_default=True,
    help="Largest deviation from that time, as a share of it; each is as likely.",
)  # fmt: skip
@click.option(
    "--images", type=click.IntRange(1), default=80, show_default=True, help="Number of images of a side in each turn."
)
@click.option("--turns", type=click.IntRange(1), default=3, show_default=True, help="Number of turns of all sides.")
@OUTPUT
def in_flight(output: str, **asked: Any) -> None:
    """Measure a worker's throughput on a server that sleeps, against clients that ask it directly.

    \b
    Examples:
      pochade bench in-flight
      pochade bench in-flight --service-s 0.1 --jitter 0 --images 400
    """
    from replay.bench.in_flight import run

    report = {"bench": "in-flight", **run(**asked)}
    click.echo(json.dumps(report) if output == "json" else "\n".join(lines(report)))

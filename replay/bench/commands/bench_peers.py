"""`pochade bench peers`: Pochade beside Ray Serve, LitServe, Celery and a FastAPI app with a queue in memory."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from replay.bench.commands.measuring import OUTPUT, measure
from streams.commands.options import Number

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings

SIDES = ("pochade", "ray-serve", "litserve", "celery", "fastapi-queue")
PHASES = ("load", "kill", "levels")


@click.command()
@click.option(
    "--side", "sides", type=click.Choice(SIDES), multiple=True, default=SIDES, help="Side to measure; may be repeated."
)
@click.option(
    "--phase", "phases", type=click.Choice(PHASES), multiple=True, default=PHASES,
    help="What to measure: time and CPU under load, kill -9 of each part, a burst with a light level; may be repeated.",
)  # fmt: skip
@click.option(
    "--work",
    "works_s",
    type=Number(0.001, 60),
    multiple=True,
    default=(0.02, 1.0),
    show_default=True,
    help="Time of a worker for an image, in seconds; may be repeated.",
)
@click.option(
    "--workers", type=click.IntRange(1, 16), default=2, show_default=True, help="Number of workers of a side."
)
@click.option(
    "--busy", type=Number(0.01, 1), default=0.6, show_default=True,
    help="Steady load as a share of what the workers carry; the burst is eight times as much.",
)  # fmt: skip
@click.option(
    "--span", "span_s", type=Number(1, 600), default=20.0, show_default=True,
    help="Length of the steady load, in seconds.",
)  # fmt: skip
@click.option(
    "--burst", "burst_s", type=Number(1, 600), default=5.0, show_default=True,
    help="Length of the burst, and of the calm before and after it, in seconds.",
)  # fmt: skip
@click.option(
    "--kills", type=click.IntRange(1, 10), default=2, show_default=True,
    help="Number of times that a worker, and the front, is killed.",
)  # fmt: skip
@OUTPUT
@click.pass_obj
def peers(load: "Callable[[], Settings]", /, output: str, **asked: Any) -> None:
    """Measure what Pochade and its peers take beside the work itself, HTTP to HTTP, under load, a burst and kill -9.

    The peers are installed into an environment of their own under the deployment's home. Celery needs redis-server on
    the PATH. Pochade keeps each request on disk at six hops; the peers keep none, but for Celery's in Redis.

    \b
    Examples:
      pochade bench peers
      pochade bench peers --side pochade --side fastapi-queue --phase load --work 0.02 --busy 0.2
      pochade bench peers --phase kill --kills 1 -o json
    """
    import pathlib
    import sys

    from replay.bench.peers.environment import python_of
    from replay.bench.peers.run import run

    settings = load()

    def notify(what: str) -> None:
        click.echo(what, err=True)

    needs_peers = set(asked["sides"]) != {SIDES[0]}
    python = python_of(settings.home / "peers", notify) if needs_peers else pathlib.Path(sys.executable)
    shown = {name: list(value) if isinstance(value, tuple) else value for name, value in asked.items()}
    measure("peers", lambda site: run(site, python=python, notify=notify, **asked), settings, shown, output)

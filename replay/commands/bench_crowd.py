"""`pochade bench crowd flood | greedy | storm`: what some clients cost the others."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from replay.commands.measuring import OUTPUT, measure

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from streams.settings import Settings


@click.command()
@click.argument("question", type=click.Choice(["flood", "greedy", "storm"]))
@click.option("--seconds", type=click.FloatRange(2, 3600), default=60.0, show_default=True, help="Of each phase.")
@click.option("--rate", type=click.FloatRange(0.1, 100), default=3.0, show_default=True, help="Watched, a second.")
@click.option("--times", type=click.IntRange(1, 100), default=10, show_default=True, help="Crowd to each one.")
@click.option("--workers", type=click.IntRange(1, 4), default=4, show_default=True, help="Of 200 ms a picture.")
@OUTPUT
@click.pass_obj
def crowd(load: "Callable[[], Settings]", /, question: str, output: str, **asked: Any) -> None:
    """What a crowd costs everybody else, on the `profile` engine: calm first, then crowded.

    \b
    flood   batch requests: how much later do interactive ones end?
    greedy  one tenant's requests: what is refused to another, and how long does it wait?
    storm   retries of the same requests: is any painted, charged or answered twice?
    """
    from replay.bench.crowd import Asked

    run = import_module(f"replay.bench.{question}").run
    measure("crowd", lambda site: run(site, Asked(**asked)), load(), {"question": question, **asked}, output)

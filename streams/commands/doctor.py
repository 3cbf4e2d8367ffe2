"""`pochade doctor`: whether this deployment can serve, and what to do where it cannot."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from streams.commands import listing
from streams.commands.options import LISTED

if TYPE_CHECKING:
    from streams.settings import Settings


@click.command()
@click.option(
    "--models",
    is_flag=True,
    help="Load each level's and discriminator's model here, too, and try what the catalog says of it.",
)
@LISTED
@click.pass_obj
def doctor(load: "Callable[[], Settings]", output: str, *, models: bool) -> None:
    """Check settings, disk, stores, models, broker and features, topics, rights, clocks, workers, plan, dead letters.

    Each check says ok, warn, or starting or fail with what to do. Exit status 0 says that this deployment serves, 1
    that a check failed, or that a role is starting, so that requests wait for it. The doctor joins a group and begins a
    transaction of its own, and creates a topic PREFIX.doctor-* for a moment; it changes nothing else.

    \b
    Examples:
      pochade doctor
      pochade doctor --models
      pochade doctor -o jsonl | jq 'select(.verdict != "ok")'
    """
    from streams.operator.doctor import examine

    found = []
    for check in examine(load(), loads_models=models):
        found.append(check)
        if output == "table":
            listing.show_check(check)
    if output != "table":
        listing.show([asdict(check) for check in found], [], output)
    count = {verdict: sum(check.verdict == verdict for check in found) for verdict in listing.VERDICTS}
    click.echo(", ".join(f"{number} {verdict}" for verdict, number in count.items()), err=True)
    if count["fail"] or count["starting"]:
        raise SystemExit(1)

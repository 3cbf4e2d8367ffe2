"""`pochade doctor | ready`: whether this deployment can serve, what to do where it cannot; waiting until it does."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from streams.commands import listing
from streams.commands.options import LISTED, Ago

if TYPE_CHECKING:
    from streams.settings import Settings

POLL_S = 1.0  # between two looks of `ready`


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


@click.command()
@click.option(
    "--within", "within_ms", type=Ago(), default="5m", show_default=True, help="Longest time to wait, such as 90s."
)
@click.pass_obj
def ready(load: "Callable[[], Settings]", within_ms: int) -> None:
    """Wait until a request would be served: topics, a plan, a worker that has loaded its model, each role, a gateway.

    Says on stderr what is waited for, when that changes. Exit status 1 says that the time is over, after what is
    missing and what to do about it.

    \b
    Examples:
      pochade ready && pochade submit "a red heart" --wait
      pochade ready --within 90s
    """
    from streams.operator.doctor import serving
    from streams.operator.verdicts import Verdict
    from streams.processes.announced import GATEWAY

    settings, begun, said = load(), time.monotonic(), ""
    while True:
        made = serving(settings)
        lacking = [each for each in made if each.verdict in (Verdict.FAIL, Verdict.STARTING)]
        took_s = time.monotonic() - begun
        if not lacking:
            doors = "".join(f"; {each.found}" for each in made if each.name == GATEWAY)
            return click.echo(f"ready after {took_s:.0f} s: a request would be served{doors}")
        if 1000 * took_s >= within_ms:
            for check in lacking:
                listing.show_check(check)
            raise SystemExit(1)
        if said != (said := ", ".join(each.name for each in lacking)):
            click.echo(f"waiting for {said}", err=True)
        time.sleep(POLL_S)

"""The parts that the benches' commands share: a broker of their own, and printing of figures."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from schemas.errors import PochadeError
from streams.commands.options import output_option

if TYPE_CHECKING:  # loaded when a bench runs: --help need not wait for Kafka's client
    from replay.bench.environment.site import Site
    from streams.settings import Settings

OUTPUT = output_option("Output format: a table, or JSON on one line.", "table", "json")


def measure(
    name: str, run: "Callable[[Site], dict[str, Any]]", settings: "Settings", asked: Mapping[str, Any], output: str
) -> None:
    """Run a bench on a site of its own and print what it measured. Raises PochadeError where records were lost."""
    import signal

    from replay.bench.environment.figures import Conditions
    from replay.bench.environment.site import open_site
    from replay.commands.demo import leave

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    conditions = Conditions()
    with open_site(settings) as site:
        measured = run(site)
        report = {"bench": name, "asked": dict(asked), **measured, **conditions.as_table(site.settings)}
    click.echo(json.dumps(report) if output == "json" else "\n".join(lines(report)))
    if measured.get("lost"):
        raise PochadeError(f"{measured['lost']} records were lost")


def lines(report: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Aligned `name value` lines; versions and settings are only in the JSON."""
    found = list[str]()
    for name, value in report.items():
        if prefix or name not in ("versions", "settings"):
            nested = isinstance(value, Mapping)
            found += lines(value, f"{prefix}{name}.") if nested else [f"{prefix + name:<44}{value}"]
    return found

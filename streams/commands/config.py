"""`pochade config show | validate`: the settings in force, and whether they can work."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from schemas.errors import PochadeError
from streams.cli import LazySettings
from streams.command_groups import CommandGroup
from streams.commands import listing
from streams.commands.options import LISTED, SHOWN

if TYPE_CHECKING:
    from streams.settings import Settings

COLOURS = {"flag": "cyan", "environment": "green", "toml": "yellow", "default": "dim"}


@click.group(cls=CommandGroup)
def config() -> None:
    """Show and check settings: options win over POCHADE_* variables, these over the TOML file, that over defaults.

    \b
    Examples:
      pochade config show
      pochade --config production.toml config validate
    """


@config.command()
@click.option("--changed", is_flag=True, help="Show only settings whose value is not the default.")
@LISTED
@click.pass_obj
def show(obj: LazySettings, changed: bool, output: str) -> None:
    """Show every setting, its value and where the value comes from. Values that may be secrets are hidden.

    \b
    Examples:
      pochade config show
      pochade --set worker.threads=2 config show --changed -o json
    """
    from streams.provenance import origins

    rows = [asdict(each) for each in origins(obj(), obj.flags) if not changed or each.origin != "default"]
    if output == "table":  # a list as --set takes it
        rows = [row | {"value": json.dumps(row["value"])} if isinstance(row["value"], list) else row for row in rows]
    listing.show(rows, ("name", "value", "origin", "where"), output, COLOURS)


@config.command()
@SHOWN
@click.pass_obj
def validate(obj: "Callable[[], Settings]", output: str) -> None:
    """Check all settings, the librdkafka properties included, the catalog, and the names of engine, policy and variant.

    No cluster is contacted: `pochade doctor` checks whether it answers. Exit status 1 says that a setting is wrong; the
    message has its value and what to do.

    \b
    Examples:
      pochade config validate
      POCHADE_KAFKA__PREFIX=mine pochade config validate -o json
    """
    from streams.catalogs import check_names
    from streams.security.properties import check_properties

    settings = obj()  # the first error ends here: without settings there is nothing to check further
    wrong = []
    try:
        check_properties(settings)
    except PochadeError as error:
        wrong.append(str(error))
    wrong += [str(error) for error in check_names(settings)]
    if output == "json":
        listing.show([{"valid": not wrong, "errors": wrong}], [], "jsonl")
    elif not wrong:
        click.echo("all settings are valid")
    for message in wrong:
        click.echo(f"error: {message}", err=True)
    if wrong:
        raise SystemExit(1)

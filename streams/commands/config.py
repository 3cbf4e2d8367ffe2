"""`pochade config show | validate`: the settings in force, and whether they can work."""

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from schemas.errors import PochadeError
from streams.cli import LazySettings
from streams.commands import listing
from streams.commands.options import LISTED, SHOWN

if TYPE_CHECKING:
    from streams.settings import Settings

COLOURS = {"flag": "cyan", "environment": "green", "toml": "yellow", "default": "dim"}


@click.group()
def config() -> None:
    """The settings: from options, then POCHADE_* variables, then the TOML file, then defaults.

    \b
    Examples:
      pochade config show
      pochade --config production.toml config validate
    """


@config.command()
@click.option("--changed", is_flag=True, help="Only what is not a default.")
@LISTED
@click.pass_obj
def show(obj: LazySettings, changed: bool, output: str) -> None:
    """Show every setting and where its value comes from. What may be a secret is hidden.

    \b
    Examples:
      pochade config show
      pochade --set worker.threads=2 config show --changed -o json
    """
    from streams.provenance import origins

    rows = [asdict(each) for each in origins(obj(), obj.flags) if not changed or each.origin != "default"]
    listing.show(rows, ("name", "value", "origin", "where"), output, COLOURS)


@config.command()
@SHOWN
@click.pass_obj
def validate(obj: "Callable[[], Settings]", output: str) -> None:
    """Check settings, the librdkafka properties among them, and that the catalog can be read; nothing is contacted.

    Exit status 1 with what is wrong, its value, and what to do. Whether the cluster answers is `pochade doctor`'s.

    \b
    Examples:
      pochade config validate
      POCHADE_KAFKA__PREFIX=mine pochade config validate -o json
    """
    from streams.catalogs import read_catalog
    from streams.security.properties import check_properties

    wrong = []
    settings = obj()  # the first error ends here: without settings there is nothing to check further
    for check in (lambda: check_properties(settings), lambda: read_catalog(settings.catalog)):
        try:
            check()
        except PochadeError as error:
            wrong.append(str(error))
    if output == "json":
        listing.show([{"valid": not wrong, "errors": wrong}], [], "jsonl")
    elif not wrong:
        click.echo("all settings are valid")
    for message in wrong:
        click.echo(f"error: {message}", err=True)
    if wrong:
        raise SystemExit(1)

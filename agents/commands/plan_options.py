"""Options that several `pochade plan` commands share."""

from pathlib import Path

import click

FILE_IN = click.Path(dir_okay=False, exists=True, path_type=Path)
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format: a table, or one JSON document.",
)
PARAMETERS = click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=NUMBER",
    help="Parameter of the policy and its value, such as heavy_share=0.3; may be repeated.",
)


def numbers(parameters: tuple[str, ...]) -> dict[str, float]:
    """Parse `("heavy_share=0.3",)` into numbers by name. Raises click.BadParameter."""
    return dict(_number(parameter) for parameter in parameters)


def _number(parameter: str) -> tuple[str, float]:
    name, _, value = parameter.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise click.BadParameter(f"{parameter!r} is not NAME=NUMBER, such as heavy_share=0.3") from None

"""Options that several commands of the agents share."""

import click

from streams.commands.known_names import CatalogOption
from streams.commands.options import FOLDER
from streams.shipped import MODELS

CATALOG = click.option(
    "--catalog",
    "name",
    cls=CatalogOption,
    help="Name of a shipped catalog, or a TOML file (default: the setting catalog).",
)
MODELS_FOLDER = click.option(
    "--models",
    type=FOLDER,
    default=MODELS,
    help="Folder with the scorer and all models that the catalog calls models/... (default: infra/models).",
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

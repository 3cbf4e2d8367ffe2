"""Options that several commands share, beside those that say which trace (`trace_options.py`)."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from streams.commands.known_names import CatalogOption
from streams.commands.options import POSITIVE

F = TypeVar("F", bound=Callable[..., Any])

CATALOG = click.option(
    "--catalog",
    cls=CatalogOption,
    metavar="NAME",
    help="Catalog of the variants to generate with (default: the setting catalog).",
)
SLO = click.option(
    "--slo",
    "slo_s",
    type=POSITIVE,
    help="Latency target of a request, in seconds (default: the setting planner.slo_s, else the catalog's).",
)


def seed_option(of: str, default: int = 0) -> Callable[[F], F]:
    """The option for the random seed of something, as help calls it."""
    return click.option(
        "--seed", type=click.IntRange(min=0), default=default, show_default=True, help=f"Random seed of {of}."
    )

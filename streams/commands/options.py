"""Options that several commands share."""

import re

import click

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

LISTED = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "jsonl"]),
    default="table",
    show_default=True,
    help="Output format: a table, one JSON array, or one JSON object per line.",
)
PUBLISHED = click.option(
    "--published",
    type=click.Path(exists=True, file_okay=False),
    metavar="FOLDER",
    help="Folder with the full files that the catalog's figures were published in (default: the setting published).",
)
SHOWN = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format: a table, or one JSON document.",
)


class Ago(click.ParamType):
    """Option type of a duration such as `90s`, `10m`, `2h` or `7d`; its value is in milliseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the milliseconds that the text says."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a duration: write a number and s, m, h or d, such as 10m", param, ctx)
        return int(float(match[1]) * UNITS_MS[match[2]])


def duration(milliseconds: float) -> str:
    """Format a duration in the greatest unit that fits, such as `1.5d` or `10m`."""
    unit = max((u for u in UNITS_MS if UNITS_MS[u] <= milliseconds), key=lambda u: UNITS_MS[u], default="s")
    return f"{milliseconds / UNITS_MS[unit]:.3g}{unit}"

"""Options that several commands share."""

import pathlib
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

MOST: Final = 1e9
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

FILE: Final = click.Path(dir_okay=False, path_type=pathlib.Path)
FILE_IN: Final = click.Path(dir_okay=False, exists=True, path_type=pathlib.Path)
FOLDER: Final = click.Path(file_okay=False, path_type=pathlib.Path)


def output_option(help: str, *formats: str) -> Callable[[F], F]:
    """Return the option for the output format; the first format is the default."""
    return click.option("-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help=help)


LISTED = output_option("Output format: a table, one JSON array, or one JSON object per line.", "table", "json", "jsonl")
SHOWN = output_option("Output format: a table, or one JSON document.", "table", "json")
STREAMED = output_option("Output format: a table, or one JSON object per line.", "table", "jsonl")


class Number(click.FloatRange):
    """Option type of a number in a range, at most MOST: NaN passes every range, infinity those without an end."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number: float = super().convert(value, param, ctx)
        if not abs(number) <= MOST:
            self.fail(f"{value!r} is no number up to {MOST:g}", param, ctx)
        return number


POSITIVE: Final = Number(min=0, min_open=True)


class Ago(click.ParamType):
    """Option type of a duration such as `90s`, `10m`, `2h` or `7d`; its value is in milliseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the milliseconds that the text says."""
        match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd])", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a duration: write a number and s, m, h or d, such as 10m", param, ctx)
        return int(float(match[1]) * UNITS_MS[match[2]])


class Size(click.ParamType):
    """Option type of a width and height in px, such as `768x512`; its value is a pair."""

    name = "WIDTHxHEIGHT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Return width and height of the text."""
        match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not WIDTHxHEIGHT in px, such as 768x512", param, ctx)
        return int(match[1]), int(match[2])


def duration(milliseconds: float) -> str:
    """Format a duration in the greatest unit that fits, such as `1.5d` or `10m`."""
    unit = max((u for u in UNITS_MS if UNITS_MS[u] <= milliseconds), key=lambda u: UNITS_MS[u], default="s")
    return f"{milliseconds / UNITS_MS[unit]:.3g}{unit}"


def since_option(help: str, default: str | None = None) -> Callable[[F], F]:
    """Return the option that says how far back a command looks."""
    return click.option("--since", type=Ago(), default=default, show_default=True, help=help)


def indices_of(text: str) -> list[int]:
    """Return the numbers of "0-3,6", ascending and each once; "": none. Raises click.BadParameter."""
    found = set[int]()
    for part in filter(None, text.split(",")):
        named = re.fullmatch(r"\s*(\d{1,3})(?:-(\d{1,3}))?\s*", part)
        first, last = (int(named[1]), int(named[2] or named[1])) if named else (1, 0)
        if last < first:
            raise click.BadParameter(f"{part.strip()!r}: write numbers and ranges of cards, such as 0-7 or 0,2,5")
        found.update(range(first, last + 1))
    return sorted(found)

"""Rows of a command: a table on a terminal, tab-separated lines elsewhere, or JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from streams.visible import json_text, visible

if TYPE_CHECKING:
    from streams.operator.verdicts import Check

VERDICTS = {"ok": "green", "warn": "yellow", "starting": "cyan", "fail": "red"}


def show(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], output: str, colours: Mapping[str, str] = {}
) -> None:
    """Print rows. A table shows `columns` only, JSON all keys; `colours` maps a cell's text to its colour."""
    if output == "json":
        click.echo(json_text([*rows], indent=2))
    elif output == "jsonl":
        for row in rows:
            click.echo(json_text(row))
    elif is_terminal():
        _table(rows, columns, colours)
    else:
        tab_separated(columns, [[row.get(name) for name in columns] for row in rows])


def is_terminal() -> bool:
    """Whether standard output is a terminal, where tables are shown; elsewhere rows are tab-separated."""
    return click.get_text_stream("stdout").isatty()


def progress(items: Iterable[Any] | None, label: str, length: int | None = None) -> Any:
    """Return a bar that shows on standard error how many items are done, if that is a terminal."""
    stderr = click.get_text_stream("stderr")
    return click.progressbar(items, length, label, file=stderr, hidden=not stderr.isatty())


def tab_separated(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as lines of cells that hold neither tabs nor line ends."""
    for row in (columns, *rows):
        click.echo("\t".join(_cell(value) for value in row))


def show_check(check: "Check") -> None:
    """Print a check of `doctor` and what to do about it."""
    verdict = click.style(f"{check.verdict:<8}", fg=VERDICTS[check.verdict])  # echo drops it without a terminal
    click.echo(f"{verdict}  {visible(f'{check.name:<16}  {check.found}')}")
    if check.do:
        click.echo(f"{'':28}-> {check.do}")


def hex_lines(data: bytes) -> list[str]:
    """Format bytes as `xxd` does, sixteen a line: offset, hexadecimal, text."""
    return [
        f"{at:08x}  {data[at : at + 16].hex(' '):<47}  "
        + "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data[at : at + 16])
        for at in range(0, len(data), 16)
    ]


def _cell(value: Any) -> str:
    return "-" if value is None else " ".join(visible(str(value)).split())


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], colours: Mapping[str, str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False)
    for name in columns:
        grid.add_column(name, overflow="fold")
    for row in rows:
        cells = [_cell(row.get(name)) for name in columns]
        grid.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in cells))
    Console().print(grid)

"""The help text of every command, and all settings with their defaults."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click

from tests.behaviour.invoking import command, invoked
from tests.behaviour.tree import COLUMNS, Tree

Track = Callable[[Sequence[Any]], Iterable[Any]]


def record_help(_tree: Tree, track: Track) -> dict[str, str]:
    """Command -> its help text, at a fixed width."""
    return dict(track(list(_texts(command(), "pochade", None))))


def _texts(one: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    context = click.Context(
        one, info_name=name, parent=parent, terminal_width=COLUMNS, max_content_width=COLUMNS, **one.context_settings
    )
    yield context.command_path, one.get_help(context)
    if isinstance(one, click.Group):
        for each in one.list_commands(context):
            inner = one.get_command(context, each)
            assert inner is not None, f"{context.command_path} lists {each} and does not have it"
            yield from _texts(inner, each, context)


def record_config(_tree: Tree, _track: Track) -> dict[str, Any]:
    """Setting -> default value and origin, as printed by `config show`."""
    rows = json.loads(invoked("config", "show", "-o", "json").stdout)
    return {row.pop("name"): row for row in rows}

"""Every command with its options, by what it is for."""

import inspect
from collections.abc import Iterator

import click

from infra.site.reference.tables import table
from streams.cli import GROUPS, main


def body() -> str:
    """Return a section a group of `pochade --help`, without commands of distributions that are not installed."""
    text, context = "", click.Context(main, info_name="pochade")
    installed = set(main.list_commands(context))
    for group, names in GROUPS.items():
        text += f"\n## {group}\n"
        for name in names:
            command = main.get_command(context, name) if name in installed else None
            if command is not None:
                text += "".join(_command(command, click.Context(command, info_name=name, parent=context), "###"))
    return text


def _command(command: click.Command, context: click.Context, level: str) -> Iterator[str]:
    about, _, examples = inspect.cleandoc(command.help or "").partition("\b\n")
    yield (
        f"\n{level} {context.command_path}\n\n"
        + "\n\n".join(" ".join(part.split()) for part in about.split("\n\n"))
        + "\n"
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context), level + "#")
        return
    shown = inspect.cleandoc(examples.partition("Examples:\n")[2]).split("\n\n")[0]
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"\n```text\n{shown or usage}\n```\n"
    options = (param.get_help_record(context) for param in command.get_params(context))
    yield table(("option", "what"), ((f"`{each[0]}`", each[1]) for each in options if each and "--help" not in each[0]))

"""Provenance of a report: the command that makes it again, and the versions that it was made with."""

import importlib.metadata
import platform
import shlex
from typing import Any

import click
from click.core import ParameterSource

from streams.as_typed import words_given
from streams.security.secrets import HIDDEN, is_secret

PACKAGES = ("pochade", "numpy", "scipy", "pulp")  # that the figures depend on
LEFT_OUT = ("report",)  # where it is written says nothing of what is


def describe_run(context: click.Context) -> dict[str, Any]:
    """The command as it was given, with its global options but without secrets, and versions."""
    words, root = shlex.split(command_line(context)), context.find_root()
    if root is not context:
        words[1:1] = map(_without_secret, shlex.split(command_line(root))[1:])
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"command": shlex.join(words), "versions": {"python": platform.python_version(), **versions}}


def command_line(context: click.Context) -> str:
    """Return the command line that runs this again, each value as it was typed.

    It is for a `RepeatableCommand` and the root; the options `LEFT_OUT` are not in it.
    """
    raw, _, _ = context.command.make_parser(context).parse_args(words_given(context))
    words = ["pochade", *context.command_path.split()[1:]]
    for parameter in context.command.params:
        name = str(parameter.name)
        if name not in LEFT_OUT and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            words += _words(parameter, raw[name])
    return shlex.join(words)


def _without_secret(word: str) -> str:
    name, equals, _ = word.partition("=")
    return f"{name}={HIDDEN}" if equals and is_secret(name) else word


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    if not isinstance(parameter, click.Option):
        return [str(value)]
    if parameter.is_flag:
        return [parameter.opts[0] if value else parameter.secondary_opts[0]]
    values = value if parameter.multiple else (value,)
    return [word for each in values for word in (parameter.opts[-1], str(each))]

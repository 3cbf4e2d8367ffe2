"""The `pochade` command in this process, in an empty folder: for sections that call it often."""

import importlib
from typing import Any

import click
from click.testing import CliRunner, Result

from tests.behaviour.tree import COLUMNS, project


def command() -> click.Command:
    """The whole command, as `pyproject.toml` names it."""
    module, _, function = project()["project"]["scripts"]["pochade"].partition(":")
    found: Any = getattr(importlib.import_module(module), function)
    assert isinstance(found, click.Command)
    return found


def invoked(*arguments: str) -> Result:
    """What came of it; raises what is neither an exit nor an error of ours."""
    runner = CliRunner()
    with runner.isolated_filesystem():
        return runner.invoke(command(), arguments, catch_exceptions=False, terminal_width=COLUMNS, prog_name="pochade")

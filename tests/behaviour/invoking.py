"""The `pochade` command in this process, in an empty folder: for sections that call it often."""

import importlib
from typing import Any

import click
from click.testing import CliRunner, Result

from tests.behaviour.tree import COLUMNS, project


def command() -> click.Command:
    """The top-level command that `pyproject.toml` names."""
    module, _, function = project()["project"]["scripts"]["pochade"].partition(":")
    found: Any = getattr(importlib.import_module(module), function)
    assert isinstance(found, click.Command)
    return found


def invoked(*arguments: str) -> Result:
    """Run `pochade` with these arguments. Exceptions other than exits and the project's own errors are raised."""
    runner = CliRunner()
    with runner.isolated_filesystem():
        return runner.invoke(command(), arguments, catch_exceptions=False, terminal_width=COLUMNS, prog_name="pochade")

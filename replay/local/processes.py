"""Processes of roles: what to run; `streams/processes/` starts and ends it, or `forked.py` forks it."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

START: Final = "from streams.cli import main; main(prog_name='pochade')"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleProcess:
    """One role's process: its name and its command."""

    name: str  # of its log, unique among the supervised
    command: tuple[str, ...]


def role_process(name: str, roles: Sequence[str], options: Sequence[str], own: Mapping[str, str]) -> RoleProcess:
    """A `pochade serve` process: the deployment's global options, and settings of its own."""
    own_settings = [part for key, value in own.items() for part in ("--set", f"{key}={value}")]
    command = (sys.executable, "-c", START, *options, *own_settings, "serve", *roles)
    return RoleProcess(name=name, command=command)

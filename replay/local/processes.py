"""Processes of roles: what to run; `streams/processes/` starts and ends it, or forks it."""

import pathlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streams.processes.children import Child, Spawn, spawn
from streams.processes.forkserver import ForkServer

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


def forking(server: ForkServer, roles: Sequence[str]) -> Spawn:
    """Return what starts a Supervisor's processes: those that run just `roles` by fork, all others anew."""

    def start(command: Sequence[str], log: pathlib.Path) -> Child:
        begin = (sys.executable, "-c", START)
        arguments = list(command[len(begin) :])
        is_ours = tuple(command[: len(begin)]) == begin and arguments[-len(roles) - 1 :] == ["serve", *roles]
        return server.spawn(arguments, log) if is_ours else spawn(command, log)

    return start

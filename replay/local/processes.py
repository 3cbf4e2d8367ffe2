"""Processes of roles: what to run, and starting it so that it never outlives us."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # looked up before any fork


class Child(Protocol):
    """Protocol of a started process; `subprocess.Popen` satisfies it."""

    pid: int

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended. Raises subprocess.TimeoutExpired."""
        ...

    def terminate(self) -> None:
        """Send SIGTERM."""
        ...

    def kill(self) -> None:
        """Send SIGKILL."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleProcess:
    """One role's process: its name, command and environment."""

    name: str  # of its log, unique among the supervised
    command: tuple[str, ...]


Spawn = Callable[[Sequence[str], pathlib.Path], Child]


def role_process(name: str, roles: Sequence[str], options: Sequence[str], own: Mapping[str, str]) -> RoleProcess:
    """A `pochade serve` process: the deployment's global options, and settings of its own."""
    own_settings = [part for key, value in own.items() for part in ("--set", f"{key}={value}")]
    start = "from streams.cli import main; main(prog_name='pochade')"
    command = (sys.executable, "-c", start, *options, *own_settings, "serve", *roles)
    return RoleProcess(name=name, command=command)


def spawn(command: Sequence[str], log: pathlib.Path) -> Child:
    """Start a role in a process group of its own, so that Ctrl-C reaches only us; it dies with us, however we do."""
    log.parent.mkdir(parents=True, exist_ok=True)
    parent = os.getpid()
    with open(log, "ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=lambda: _die_with(parent),
        )


def _die_with(parent: int) -> None:
    if _prctl is not None:
        _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died before the signal was set
            os._exit(1)

"""Roles as child processes: started together, restarted when they die unasked, and never left behind."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from schemas.errors import PochadeError

MOST_RESTARTS = 5  # of one role; beyond it the cause is not an accident
FIRST_BACKOFF_S = 0.5  # doubles with each restart of the role
STOP_S = 15.0  # between SIGTERM and SIGKILL
PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # looked up before any fork


class RoleFailed(PochadeError):
    """A role that dies again and again."""


class Child(Protocol):
    """What a started role can be asked; `subprocess.Popen` is one."""

    pid: int

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Block until it has ended. Raises subprocess.TimeoutExpired."""
        ...

    def terminate(self) -> None:
        """SIGTERM."""
        ...

    def kill(self) -> None:
        """SIGKILL."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleProcess:
    """One process to run."""

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
        if os.getppid() != parent:  # it died before we asked to be told
            os._exit(1)


@dataclass(slots=True)
class _Running:
    role: RoleProcess
    child: Child
    restarts: int = 0
    restart_at_s: float | None = None  # when a dead one is due again


class Supervisor:
    """Keeps a set of roles alive. Call `check` often and from the thread that started them (Linux's rule)."""

    def __init__(
        self,
        roles: Sequence[RoleProcess],
        log_folder: pathlib.Path,
        *,
        spawn: Spawn = spawn,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        names = [role.name for role in roles]
        assert len(set(names)) == len(names), f"names of supervised roles repeat: {names}"
        self._roles, self._log_folder, self._spawn, self._clock_s = roles, log_folder, spawn, clock_s
        self._running: list[_Running] = []

    @property
    def restarts(self) -> dict[str, int]:
        """Role -> how often it was started again."""
        return {running.role.name: running.restarts for running in self._running}

    def log_of(self, name: str) -> pathlib.Path:
        """Where a role writes what it has to say."""
        return self._log_folder / f"{name}.log"

    def start(self) -> None:
        """Start all of them at once."""
        for role in self._roles:
            self.log_of(role.name).unlink(missing_ok=True)  # the last run's
            self._running.append(_Running(role, self._spawn(role.command, self.log_of(role.name))))

    def check(self, *, is_starting: bool = False) -> list[str]:
        """Start again what died and is due; a sentence for each death that was found.

        Raises:
            RoleFailed: a role died once more than it may be restarted, or gave up by itself `is_starting`: it was
                started with something that cannot work, and its log says what.
        """
        return [note for running in self._running if (note := self._check(running, is_starting))]

    def _check(self, running: _Running, is_starting: bool) -> str | None:
        if running.restart_at_s is not None:
            if self._clock_s() >= running.restart_at_s:
                running.child = self._spawn(running.role.command, self.log_of(running.role.name))
                running.restart_at_s = None
            return None
        status = running.child.poll()
        if status is None:
            return None
        gave_up = is_starting and status > 0
        if gave_up or running.restarts >= MOST_RESTARTS:
            when = "while starting" if gave_up else f"after {MOST_RESTARTS} restarts"
            log = self.log_of(running.role.name)
            raise RoleFailed(
                f"{running.role.name} ended with {_ending(status)} {when}; the end of {log}:\n{_tail(log)}"
            )
        return self._bury(running, status)

    def _bury(self, running: _Running, status: int) -> str:
        name = running.role.name
        backoff_s = FIRST_BACKOFF_S * 2**running.restarts
        running.restarts += 1
        running.restart_at_s = self._clock_s() + backoff_s
        return f"{name} ended with {_ending(status)}; restart {running.restarts} of {MOST_RESTARTS} in {backoff_s:g} s"

    def stop(self) -> None:
        """SIGTERM to all, SIGKILL to what still runs after STOP_S. May be called twice."""
        children = [running.child for running in self._running if running.child.poll() is None]
        for child in children:
            child.terminate()
        end_s = self._clock_s() + STOP_S
        for child in children:
            try:
                child.wait(max(0.0, end_s - self._clock_s()))
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def _ending(status: int) -> str:
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def _tail(log: pathlib.Path, lines: int = 8) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(nothing)"

"""Roles as child processes: started together, restarted when they die unasked, and never left behind."""

import math
import pathlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from replay.local.processes import RoleProcess
from schemas.errors import PochadeError
from streams.processes.children import Child, Spawn, end_all, spawn

MAX_RESTARTS = 5  # of one role; beyond it the cause is not an accident
FIRST_BACKOFF_S = 0.5  # doubles with each restart of the role


@dataclass(frozen=True, slots=True)
class RestartLimit:
    """Limits of restarting a role that dies unasked: number of restarts, and backoff in seconds."""

    restarts: int = MAX_RESTARTS
    first_s: float = FIRST_BACKOFF_S  # before the first; doubled with each
    most_s: float = math.inf


USUAL = RestartLimit()


class RoleFailed(PochadeError):
    """A role that dies again and again."""


@dataclass(slots=True)
class _Running:
    role: RoleProcess
    child: Child
    restarts: int = 0
    restart_at_s: float | None = None  # when a dead one is due again
    is_held: bool = False  # it was ended on purpose and is not started again


class Supervisor:
    """Keeps a set of roles alive. Call `check` often and from the thread that started them (Linux's rule)."""

    def __init__(
        self,
        roles: Sequence[RoleProcess],
        log_folder: pathlib.Path,
        *,
        spawn: Spawn = spawn,
        clock_s: Callable[[], float] = time.monotonic,
        patience: RestartLimit = USUAL,
    ) -> None:
        names = [role.name for role in roles]
        assert len(set(names)) == len(names), f"names of supervised roles repeat: {names}"
        self._roles, self._log_folder, self._spawn, self._clock_s = roles, log_folder, spawn, clock_s
        self._patience = patience
        self._running: list[_Running] = []
        self.endings: Counter[str] = Counter()  # "ledger: signal SIGKILL" -> how often, of what was started again

    @property
    def restarts(self) -> dict[str, int]:
        """Role -> how often it was started again."""
        return {running.role.name: running.restarts for running in self._running}

    def log_of(self, name: str) -> pathlib.Path:
        """Return the file that a role writes its log to."""
        return self._log_folder / f"{name}.log"

    def start(self) -> None:
        """Start all of them at once."""
        for role in self._roles:
            self.log_of(role.name).unlink(missing_ok=True)  # the last run's
            self.add(role)

    def add(self, role: RoleProcess) -> Child:
        """Start one more and look after it; one of this name may have been held or ended for good. Its process."""
        known = self._find(role.name)
        assert known is None or known.is_held, f"{role.name} is looked after already"
        self._running = [each for each in self._running if each is not known]
        child = self._spawn(role.command, self.log_of(role.name))
        self._running.append(_Running(role, child, known.restarts if known else 0))
        return child

    def hold(self, name: str) -> Child:
        """Look no more after a role, as somebody is about to end it; its process. `add` begins again."""
        found = self._find(name)
        assert found is not None, f"no role {name}"
        found.is_held = True
        return found.child

    def is_paused(self, name: str) -> bool:
        """Return whether the role is known and not started again when it ends."""
        found = self._find(name)
        return found is not None and found.is_held

    def child(self, name: str) -> Child | None:
        """A role's process; None while it is dead, held or unknown."""
        found = self._find(name)
        return found.child if found and not found.is_held and found.child.poll() is None else None

    def _find(self, name: str) -> _Running | None:
        return next((each for each in self._running if each.role.name == name), None)

    def check(self, *, is_starting: bool = False) -> list[str]:
        """Start again what died and is due; a sentence for each death that was found.

        Raises:
            RoleFailed: a role died once more than it may be restarted, or gave up by itself `is_starting`: it was
                started with something that cannot work, and its log says what.
        """
        cared_for = [running for running in self._running if not running.is_held]
        return [note for running in cared_for if (note := self._check(running, is_starting))]

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
        most = self._patience.restarts
        if gave_up or running.restarts >= most:
            when = "while starting" if gave_up else f"after {most} restarts"
            log = self.log_of(running.role.name)
            raise RoleFailed(f"{running.role.name} ended with {ending(status)} {when}; the end of {log}:\n{_tail(log)}")
        return self._bury(running, status)

    def _bury(self, running: _Running, status: int) -> str:
        name, patience = running.role.name, self._patience
        backoff_s = min(patience.most_s, patience.first_s * 2 ** min(running.restarts, 30))
        running.restarts += 1
        self.endings[f"{name}: {ending(status)}"] += 1
        running.restart_at_s = self._clock_s() + backoff_s
        return (
            f"{name} ended with {ending(status)}; restart {running.restarts} of {patience.restarts} in {backoff_s:g} s"
        )

    def end(self, *children: Child, is_killed: bool = False) -> None:
        """End some for good and wait: SIGTERM, and SIGKILL to what still runs after STOP_S, or to all at once."""
        for running in self._running:
            running.is_held = running.is_held or running.child in children
        for child in children if is_killed else ():
            child.kill()
        end_all(children, clock_s=self._clock_s)

    def stop(self) -> None:
        """SIGTERM to all, SIGKILL to what still runs after STOP_S. May be called twice."""
        end_all([running.child for running in self._running], clock_s=self._clock_s)

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()


def ending(status: int) -> str:
    """Return how a process ended, in words."""
    return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def _tail(log: pathlib.Path, lines: int = 8) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(nothing)"

"""Runs training steps in parallel, each in its own process: those whose inputs are there, the longest chain first."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol

from agents.lab.training.ledger import Ledger
from agents.lab.training.plan import Step
from agents.lab.training.schedule import ahead_minutes, before
from schemas.errors import PochadeError
from streams.processes.children import end_all

_STOP_TIMEOUT_S: Final = 10.0  # for a stopped process to exit
_TAIL: Final = 4096  # bytes of a log that are read for its last line
_COUNT: Final = re.compile(r"\b(\d+)/(\d+)\b")  # "unet_XS 120/4000 loss 0.2": how far a step is


class StepFailed(PochadeError):
    """A step ended with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The number of processes, of threads in each, and the device."""

    processes: int
    threads: int
    device: str  # "auto", "cpu" or "cuda"


class Watcher(Protocol):
    """Receives the progress of a training."""

    def skipped(self, step: Step) -> None:
        """Called for a step that was finished before."""

    def began(self, step: Step, log: Path) -> None:
        """Called when a step's process has started."""

    def goes_on(self, step: Step, done: int, total: int, line: str) -> None:
        """Called with a step's progress (total 0: unknown) and the last line of its log."""

    def ended(self, step: Step, minutes: float) -> None:
        """Called when a step has ended and its artefacts are there."""


def step_command(step: Step, ledger: Ledger, resources: Resources) -> list[str]:
    """The command line of a step's process."""
    folders = ledger.folders
    command = [sys.executable, "-m", "agents.lab.training.step", step.name, "--tied"]
    command += ["--work", str(folders.work), "--models", str(folders.models), "--seed", str(ledger.seed)]
    return [*command, "--scale", str(ledger.scale), "--device", resources.device, "--threads", str(resources.threads)]


@dataclass(frozen=True, slots=True)
class Running:
    """A step whose process runs."""

    step: Step
    process: subprocess.Popen[bytes]
    log: Path
    began: float

    @property
    def minutes(self) -> float:
        return (time.monotonic() - self.began) / 60


@dataclass
class Runner(AbstractContextManager["Runner"]):
    """Runs steps; leaving it stops whatever still runs, which goes on from its checkpoint the next time."""

    ledger: Ledger
    resources: Resources
    watcher: Watcher
    command: Callable[[Step, Ledger, Resources], list[str]] = step_command
    poll_s: float = 0.5
    running: dict[str, Running] = field(default_factory=dict)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end_all([running.process for running in self.running.values()], _STOP_TIMEOUT_S)

    def run(self, steps: Sequence[Step], again: frozenset[str]) -> None:
        """Run what is not finished of `steps`; those named in `again` in any case.

        Raises:
            StepFailed: a step failed; its log is named.
            PochadeError: a step was trained with another seed.
        """
        known, urgency = {step.name: step for step in steps}, ahead_minutes(steps)
        order = TopologicalSorter(before(steps))
        order.prepare()
        waiting: list[str] = []
        while order.is_active():
            waiting += order.get_ready()
            if waiting and len(self.running) < self.resources.processes:
                step = known[max(waiting, key=lambda name: urgency[name])]
                waiting.remove(step.name)
                if step.name not in again and self.ledger.is_finished(step):
                    self.watcher.skipped(step)
                    order.done(step.name)
                else:
                    self._start(step, is_new=step.name in again)
                continue
            time.sleep(self.poll_s)
            order.done(*self._collect())

    def _start(self, step: Step, *, is_new: bool) -> None:
        if is_new or not self.ledger.can_go_on(step):
            self.ledger.forget(step)
        log = self.ledger.folders.work / "logs" / f"{step.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        settings = {"OMP_NUM_THREADS": str(self.resources.threads), "TOKENIZERS_PARALLELISM": "false"}
        with log.open("ab") as out:
            process = subprocess.Popen(
                self.command(step, self.ledger, self.resources),
                stdin=subprocess.PIPE,  # never written to: the step ends with it, when this process has ended
                stdout=out,
                stderr=subprocess.STDOUT,
                env=os.environ | settings | {"PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # so that Ctrl-C reaches this process alone, which ends the others
            )
        self.running[step.name] = Running(step, process, log, time.monotonic())
        self.watcher.began(step, log)

    def _collect(self) -> list[str]:
        """Report the progress of running steps; return the names of those that ended."""
        ended = []
        for name, running in list(self.running.items()):
            code, line = running.process.poll(), last_line(running.log)
            if code is None:
                found = _COUNT.search(line)
                done, total = (int(found[1]), int(found[2])) if found else (0, 0)
                self.watcher.goes_on(running.step, done, total, line)
                continue
            del self.running[name]
            if code != 0:
                raise StepFailed(
                    f"training step {name} failed (exit code {code}): {line or 'it printed nothing'}; all of it is in "
                    f"{running.log}. The same command goes on from the last checkpoint"
                )
            self.watcher.ended(running.step, running.minutes)
            ended.append(name)
        return ended


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")

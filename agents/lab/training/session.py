"""One call of `pochade train`: what the target takes, the shipped parts, the runner, and the model cards at the end."""

import contextlib
import fcntl
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Protocol

from agents.lab.training.cards import cards
from agents.lab.training.ledger import Ledger
from agents.lab.training.plan import steps_of
from agents.lab.training.recipe import copy_parts, recipe
from agents.lab.training.runner import Resources, Runner, Watcher
from schemas.errors import PochadeError
from streams.shipped import MODELS


class Reporter(Watcher, Protocol):
    """A watcher that can also say something."""

    def say(self, line: str) -> None:
        """For people."""


class Stopped(PochadeError):
    """Broken off by a signal."""


def run(target: str, ledger: Ledger, resources: Resources, reporter: Reporter, *, again: bool) -> None:
    """Train a target, and write the notes and cards of what it made.

    Raises:
        Unknown: no such target.
        PochadeError: a step failed, another call uses the work folder, or it was stopped.
    """
    folders = ledger.folders
    folders.work.mkdir(parents=True, exist_ok=True)
    with _alone(folders.work), _stoppable():
        needed = recipe(target, folders, MODELS)
        copy_parts(needed.copies, folders, reporter.say)
        own = frozenset(step.name for step in steps_of(target)) if again else frozenset()
        try:
            with Runner(ledger, resources, reporter) as runner:
                runner.run(needed.steps, own)
        except KeyboardInterrupt:
            raise Stopped("stopped; the same command goes on from the last checkpoints") from None
        cards.collect_notes(folders.work, folders.models)
        cards.write_cards(folders.models)


@contextlib.contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Hold the work folder's lock, which ends with the process."""
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PochadeError(f"another `pochade train` works in {work}: wait, or name another --work") from None
        yield


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Treat a polite kill and a closed terminal as Ctrl-C, so that the steps are ended too."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Requests at a rate, and orders to the planner, as clients and operators send them while a test looks on."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence

from click.testing import CliRunner

from agents.commands.plan import plan as plan_command
from streams.settings import Settings

BEHIND_S = 1.0  # that a machine which stood still catches up with


class Load:
    """Asks for images at a rate, from a thread of its own, until it is closed."""

    def __init__(self, ask: Callable[[str], str], prompts: Sequence[str], rate: float) -> None:
        """`ask`: sends a prompt and returns its request's id. `rate`: requests a second, which may be changed."""
        self._ask, self._prompts = ask, prompts
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.rate = rate
        self.ids: list[str] = []

    def start(self) -> "Load":
        self._thread.start()
        return self

    def _run(self) -> None:
        due_s = time.monotonic()
        for prompt in itertools.cycle(self._prompts):
            due_s = max(due_s + 1 / self.rate, time.monotonic() - BEHIND_S)
            if self._stopping.wait(max(0.0, due_s - time.monotonic())):
                return
            self.ids.append(self._ask(prompt))

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()


def order(settings: Settings, *arguments: str) -> None:
    """`pochade plan` as an operator calls it."""
    done = CliRunner().invoke(plan_command, list(arguments), obj=lambda: settings, catch_exceptions=False)
    assert done.exit_code == 0, done.output

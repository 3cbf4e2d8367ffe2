"""How far a simulated run is, and the end of one that takes too long."""

import sys
import time
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:  # loaded with the command that runs
    from replay.traces import Trace

PROGRESS: Final = "progress: "  # begins such a line, where standard error is no terminal
EVERY_S: Final = 2.0  # of those lines


def describe(trace: "Trace", requests: int) -> str:
    """Say how much of a trace its first requests cover."""
    part_s, whole_s = (float(trace.arrival_ms[at]) / 1000 for at in (requests - 1, -1))
    each_s, unit = (60, "min") if whole_s >= 600 else (1, "s")
    return f"{part_s / each_s:.0f} of {whole_s / each_s:.0f} {unit}, {requests:,} of {len(trace):,} requests"


class Progress:
    """Called with each number of new requests of a run, says how far it is, and returns True when its time is over."""

    def __init__(self, policy: str, trace: "Trace", seeds: int, until_s: float) -> None:
        """`until_s`: on the monotonic clock."""
        self.requests, self._policy, self._trace, self._total = 0, policy, trace, seeds * len(trace)
        self._until_s, self._began_s = until_s, time.monotonic()
        self._said_s, self._is_shown = self._began_s, sys.stderr.isatty()

    def __call__(self, requests: int) -> bool:
        """Return whether the run is to take no more requests."""
        self.requests, now_s = self.requests + requests, time.monotonic()
        if now_s - self._said_s >= EVERY_S:
            self._said_s = now_s
            far = describe(self._trace, self.requests % len(self._trace) or len(self._trace))  # in the run of a seed
            left_s = (now_s - self._began_s) * (self._total / self.requests - 1)
            begin, end = ("", "\033[K\r") if self._is_shown else (PROGRESS, "\n")
            click.echo(f"{begin}{self._policy}: {far}, about {left_s:.0f} s left{end}", err=True, nl=False)
        return now_s >= self._until_s

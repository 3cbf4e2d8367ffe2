"""Measures the machine's speed during a run: the time of a fixed piece of work, to another process and back.

What lies between the processes of a pipeline is work of this kind, a little CPU time and a wake-up on either side, so
that times measured on a busy machine may be scaled to a quiet one's, and back. A machine is as fast as it is during the
run, beside all that runs then: a probe before it says little.
"""

import json
import subprocess
import sys
from types import TracebackType
from typing import Self

import numpy as np

from replay.simulation.draws.hop_latencies import RANKS, Quantiles

PAUSE_S = 0.1  # between two pieces: the probe takes 2 to 3 % of a core
PROBE = """
import hashlib, json, os, select, sys, time
block = bytes(1 << 20)
asked, ask = os.pipe()
answers, answer = os.pipe()
if os.fork() == 0:
    os.close(ask)
    while os.read(asked, 1):
        hashlib.sha256(block).digest()
        os.write(answer, b".")
    os._exit(0)
os.close(asked)
os.close(answer)
found = []
while not select.select([0], [], [], float(sys.argv[1]))[0]:  # readable: the parent has closed it, or is dead
    began = time.perf_counter()
    hashlib.sha256(block).digest()
    os.write(ask, b".")
    os.read(answers, 1)
    found.append(1000 * (time.perf_counter() - began))
os.close(ask)
os.wait()
print(json.dumps(found))
"""


class SpeedProbe:
    """A context: a process that measures until `stop`, or until the context or this process ends."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        """`pause_s`: between two pieces of work."""
        self._pause_s = pause_s
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        command = [sys.executable, "-ISc", PROBE, str(self._pause_s)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> Quantiles:
        """Return the ms of a piece of work at `RANKS`; () where none was measured, or it had stopped before."""
        child, self._child = self._child, None
        if child is None:
            return ()
        written, _ = child.communicate()
        found: list[float] = json.loads(written or "[]")
        return tuple(np.quantile(found, RANKS).round(3).tolist()) if found else ()

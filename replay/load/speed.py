"""A probe of the machine's speed: how long a piece of work takes that goes to another process and back.

What lies between the processes of a pipeline is work of this kind, a little CPU time and a wake-up on either side, so
that times measured on a busy machine may be scaled to a quiet one's, and back.
"""

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from replay.simulation.draws.hop_latencies import RANKS, Quantiles

PAUSE_S = 0.02  # between two pieces, so that the probe itself keeps a core busy for a small part of the time
BLOCK = bytes(1 << 20)
ECHO = """
import hashlib, sys
block = bytes(1 << 20)
while sys.stdin.buffer.read(1):
    hashlib.sha256(block).digest()
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""


def probe(seconds: float, clock: Callable[[], float] = time.perf_counter) -> Quantiles:
    """Return the ms of a piece of work at `RANKS`, measured for so many seconds; () of none."""
    if seconds <= 0:
        return ()
    found: list[float] = []
    until = clock() + seconds
    with subprocess.Popen([sys.executable, "-ISc", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        while clock() < until or len(found) < 2:
            began = clock()
            hashlib.sha256(BLOCK).digest()
            child.stdin.write(b".")
            child.stdin.flush()
            child.stdout.read(1)
            found.append(1000 * (clock() - began))
            time.sleep(PAUSE_S)
        child.stdin.close()  # it ends
    return tuple(np.quantile(found[1:], RANKS).round(3).tolist())  # the first waits for the child's start

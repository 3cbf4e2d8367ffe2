"""Processes for simulations: forked from one that has the simulator imported, which takes two seconds of a processor.

That one is multiprocessing's own fork server: it starts with the first pool of a command, and ends with the command.
"""

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Final

PRELOADED: Final = ["replay.bench.papers.runs.cells", "replay.bench.frontier.cells"]
THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def simulating(jobs: int, begin: Callable[[], object] | None = None) -> ProcessPoolExecutor:
    """Return a pool of `jobs` processes with one thread each; each calls `begin` first."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(begin,))


def _begin(begin: Callable[[], object] | None) -> None:
    for name in THREADS:  # libraries must not fight for the cores
        os.environ[name] = "1"
    if begin is not None:
        begin()

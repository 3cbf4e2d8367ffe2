"""Processes that keep torch busy beside a measurement, as other workers of a machine do."""

import contextlib
import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from typing import Final

from agents.components.opening import Keeping
from agents.profiling.generation.orders import generate_images, opened
from agents.profiling.profiling import usual_order
from planner.catalog.entries import Variant
from schemas.errors import PochadeError

READY_S: Final = 120.0
STOP_S: Final = 30.0


def others() -> int:
    """Number of processes beside one worker that fill this machine's cores; one at least."""
    return max(1, len(os.sched_getaffinity(0)) - 1)


@contextlib.contextmanager
def torch_busy(variant: Variant, count: int, keeping: Keeping) -> Iterator[None]:
    """Let `count` processes generate images of a variant, a thread each, until the block ends.

    Raises PochadeError: one of them does not begin.
    """
    context = multiprocessing.get_context("spawn")
    ends = context.Event()
    begun = [context.Event() for _ in range(count)]
    started = [
        context.Process(target=generate_until, args=(variant, each, ends, os.getpid(), keeping), daemon=True)
        for each in begun
    ]
    try:
        for process in started:
            process.start()
        if not all(each.wait(READY_S) for each in begun):
            raise PochadeError(f"a process that keeps torch busy did not begin within {READY_S:g} s")
        yield
    finally:
        ends.set()
        for process in started:
            process.join(STOP_S)
            process.kill()
            process.join(STOP_S)


def generate_until(variant: Variant, begun: Event, ends: Event, parent: int, keeping: Keeping) -> None:
    """Generate until `ends`, or until the process that began this one is gone."""
    engine, order = opened(variant, 1, keeping), usual_order(variant, 1)
    begun.set()
    while not ends.is_set() and os.getppid() == parent:
        generate_images(engine, order)

"""How long a variant takes to load and to paint, and what memory it needs, measured in a process of its own.

Which clock counts: "cpu" is this process's own time, and does not notice what else the machine does; it stands for the
time on an idle core only where one thread paints. Everywhere else (CUDA, several threads, an engine that waits) it is
"wall".
"""

import gc
import importlib
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from agents.engines import ENGINES, Engine, open_engine
from agents.evaluation.painting import Order, paint_call
from planner.catalog import Variant
from schemas.errors import PochadeError

WARM_UP, REPEATS, FEWEST = 2, 9, 3  # calls at each batch size; fewer repeats where they would outlast the budget
LOADS = 3  # into a warm process


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One call, over repeats after the warm-up: medians, and the quartiles by the clock that counts."""

    ms: float
    low_ms: float
    high_ms: float
    cpu_ms: float
    wall_ms: float
    repeats: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One variant on this machine."""

    clock: str  # "cpu" | "wall"
    cold_load_ms: float  # libraries and model into a new process, by the wall; the files may be in the page cache
    load_ms: float  # into a process that has loaded it before, median of LOADS
    memory_bytes: int  # peak of the process above what it held with the libraries loaded
    cuda_bytes: int  # peak that torch allocated; 0 without CUDA
    calls: dict[int, Timing]  # batch size -> one call
    failed: dict[int, str]  # batch size -> why it could not be painted: memory


def measure(variant: Variant, batches: Sequence[int], threads: int, budget_s: float) -> Measured:
    """Measure in this process, which should be new. `budget_s` bounds the repeats of each batch size.

    Raises:
        EngineFailed: the variant cannot be loaded.
        PochadeError: not even one picture could be painted.
    """
    begun = time.perf_counter()
    importlib.import_module(ENGINES[variant.engine])
    before = _resident_bytes()
    engine = open_engine(variant.engine, variant, threads)
    cold_load_ms = (time.perf_counter() - begun) * 1e3
    loads = []
    for _ in range(LOADS):
        del engine
        gc.collect()
        begun = time.perf_counter()
        engine = open_engine(variant.engine, variant, threads)
        loads.append((time.perf_counter() - begun) * 1e3)
    clock, calls, failed = clock_of(variant, threads), dict[int, Timing](), dict[int, str]()
    for batch in sorted(batches):
        try:
            calls[batch] = timed(engine, variant, batch, clock, budget_s)
        except RuntimeError as error:  # torch's word for no memory, and larger batches need more
            failed[batch] = str(error).splitlines()[0]
            break
    if not calls:
        raise PochadeError(f"level {variant.name!r} paints no picture here: {failed}")
    return Measured(
        clock=clock,
        cold_load_ms=cold_load_ms,
        load_ms=statistics.median(loads),
        memory_bytes=max(0, _peak_bytes() - before),
        cuda_bytes=_cuda_bytes(variant),
        calls=calls,
        failed=failed,
    )


def timed(engine: Engine, variant: Variant, batch: int, clock: str, budget_s: float) -> Timing:
    """Repeated calls for `batch` pictures on a blank."""
    order = Order(variant=variant, prompts=("a red heart above a blue star",) * batch, seeds=tuple(range(batch)))
    samples = list(_samples(lambda: paint_call(engine, order), budget_s))
    by = {name: [sample[at] for sample in samples] for at, name in enumerate(("cpu", "wall"))}
    low, middle, high = statistics.quantiles(by[clock], n=4, method="inclusive")
    return Timing(
        ms=middle, low_ms=low, high_ms=high, cpu_ms=statistics.median(by["cpu"]),
        wall_ms=statistics.median(by["wall"]), repeats=len(samples),
    )  # fmt: skip


def _samples(call: Callable[[], object], budget_s: float) -> Iterable[tuple[float, float]]:
    """(CPU ms, wall ms) of each call after the warm-up."""
    end = time.perf_counter() + budget_s
    for at in range(WARM_UP + REPEATS):
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        if at >= WARM_UP:
            yield (time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3
        if at + 1 >= WARM_UP + FEWEST and time.perf_counter() > end:
            return


def clock_of(variant: Variant, threads: int) -> str:
    """Which clock counts for a variant; see the module."""
    return "cpu" if variant.engine == "diffusers" and threads == 1 and not _is_on_cuda(variant) else "wall"


def _is_on_cuda(variant: Variant) -> bool:
    import torch

    from agents.engines.pipelines import placement

    return placement(variant.loading, has_cuda=torch.cuda.is_available())[0].startswith("cuda")


def _cuda_bytes(variant: Variant) -> int:
    if variant.engine != "diffusers" or not _is_on_cuda(variant):
        return 0
    import torch

    return int(torch.cuda.max_memory_allocated())


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def _peak_bytes() -> int:
    """Most that was resident. Not `ru_maxrss`: Linux lets a new process begin with its parent's."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
    return peak * 1024 or _resident_bytes()

"""How long a variant takes to load and to generate images, and what memory it needs, measured in a process of its own.

Which clock counts: "cpu" is this process's own time, and does not notice what else the machine does; it stands for the
time on an idle core only where one thread generates. Everywhere else (CUDA, several threads, an engine that waits) it
is "wall".

Speeds of a machine drift within minutes, by half and more where others share it. So levels are timed in turns, a few
calls each, and a figure is the median over all turns: a slow minute falls upon every level, and their ratios hold.
"""

import contextlib
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from rich.progress import track

from agents.components.opening import Keeping
from agents.engines import open_engine
from agents.profiling.generation.orders import Order, generate_images
from agents.profiling.in_flight import in_flight, sizes_of
from agents.profiling.page_cache import files_of, forget
from planner.catalog.engines import ENGINES
from planner.catalog.entries import Variant
from schemas.errors import PochadeError

WARM_UP, REPEATS = 1, 3  # calls of one turn; fewer repeats where they would outlast the budget, and never none
ENOUGH_S = 0.3  # quick calls are repeated for so long
TURNS = 15  # of what is timed side by side in one process


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One call, over repeats after the warm-up: medians, and the quartiles by the clock that counts."""

    ms: float
    low_ms: float
    high_ms: float
    cpu_ms: float
    wall_ms: float
    repeats: int


class Sample(NamedTuple):
    """One call by both clocks."""

    cpu_ms: float
    wall_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One variant in one process."""

    cold_load_ms: float  # libraries and model into a new process, by the wall; the files may be in the page cache
    load_ms: float  # into a process that has loaded it before
    memory_bytes: int  # peak of the process above what it held with the libraries loaded
    cuda_bytes: int  # peak that torch allocated; 0 without CUDA
    calls: dict[int, list[Sample]]  # batch size -> calls; where calls overlap: calls at once -> as many images
    failed: dict[int, str]  # batch size -> why it could not be generated: memory
    is_compiled: bool = False  # whether its denoiser ran compiled code
    shaped: dict[str, list[Sample]] = field(default_factory=dict)  # WIDTHxHEIGHT@STEPS -> calls for one image
    unshaped: dict[str, str] = field(default_factory=dict)  # the same -> why no such image could be generated
    disk_load_ms: float | None = None  # as load_ms, with the model's files read from the disk; None: not measured
    kept_share: float = 1.0  # of the model's files that were in memory all the same, [0, 1]


class Besides(NamedTuple):
    """What is measured besides the times of the variant's own size and steps."""

    sizes: tuple[tuple[int, int], ...] = ()  # width, height in px
    steps: tuple[int, ...] = ()
    is_cold: bool = False  # whether it is loaded from the disk, too

    def shapes(self, variant: Variant) -> dict[str, Variant]:
        """WIDTHxHEIGHT@STEPS -> the variant with each size and number of steps; its own where none is named."""
        sizes = self.sizes or ((variant.width, variant.height),) * bool(self.steps)
        return {
            f"{width}x{height}@{steps}": replace(variant, width=width, height=height, steps=steps)
            for width, height in sizes for steps in self.steps or (variant.steps,)
        }  # fmt: skip


NOTHING: Final = Besides()


def measure(
    variant: Variant, batches: Sequence[int], threads: int, budget_s: float, keeping: Keeping | None = None,
    besides: Besides = NOTHING,
) -> Round:  # fmt: skip
    """Measure in this process, which should be new. `budget_s` bounds the repeats of each batch size and each shape.

    `keeping`: where the engine has its volume; None for the defaults.

    Raises:
        EngineFailed: the variant cannot be loaded.
        PochadeError: not even one image could be generated.
    """
    begun = time.perf_counter()
    ENGINES.load(variant.engine)
    before = _resident_bytes()
    engine = open_engine(variant.engine, variant, threads, keeping)
    cold_load_ms = (time.perf_counter() - begun) * 1e3
    engine.close()
    del engine
    gc.collect()
    begun = time.perf_counter()
    engine = open_engine(variant.engine, variant, threads, keeping)
    load_ms = (time.perf_counter() - begun) * 1e3
    calls, failed = dict[int, list[Sample]](), dict[int, str]()
    overlap = engine.calls_at_once > 1
    for batch in sizes_of(engine.calls_at_once) if overlap else sorted(batches):
        call = partial(generate_images, engine, usual_order(variant, 1 if overlap else batch))
        try:
            with in_flight(call, batch) if overlap else contextlib.nullcontext(call) as block:
                calls[batch] = list(samples(block, budget_s))
        except RuntimeError as error:  # torch's word for no memory, and larger batches need more
            failed[batch] = str(error).splitlines()[0]
            break
    if not calls:
        raise PochadeError(f"level {variant.name!r} generates no image here: {failed}")
    found = Round(
        cold_load_ms=cold_load_ms,
        load_ms=load_ms,
        memory_bytes=max(0, _peak_bytes() - before),
        cuda_bytes=engine.peak_device_bytes(),
        calls=calls,
        failed=failed,
        is_compiled=engine.is_compiled,
    )
    for shape, shaped in besides.shapes(variant).items():
        try:
            found.shaped[shape] = list(samples(partial(generate_images, engine, usual_order(shaped, 1)), budget_s))
        except Exception as error:  # a model's own word for a size that it cannot, or no memory
            found.unshaped[shape] = f"{type(error).__name__}: {error}".splitlines()[0]
    engine.close()
    if not besides.is_cold:
        return found
    del engine
    gc.collect()
    kept_share, begun = forget(files_of(variant)), time.perf_counter()
    engine = open_engine(variant.engine, variant, threads, keeping)
    disk_load_ms = (time.perf_counter() - begun) * 1e3
    engine.close()
    return replace(found, disk_load_ms=disk_load_ms, kept_share=kept_share)


def usual_order(variant: Variant, batch: int) -> Order:
    """An order of `batch` images from noise, generated only to time it."""
    return Order(variant=variant, prompts=("a red heart above a blue star",) * batch, seeds=tuple(range(batch)))


def in_turns(calls: Mapping[str, Callable[[], object]], budget_s: float, label: str) -> dict[str, list[list[Sample]]]:
    """Sample the calls in turns until `budget_s` is spent, at least two turns. `label` is shown on the progress bar."""
    taken, end = {name: list[list[Sample]]() for name in calls}, time.perf_counter() + budget_s
    for turn in track(range(TURNS), description=f"timing {label}"):
        for name, call in calls.items():
            taken[name].append(list(samples(call, math.inf, warm_up=WARM_UP if turn == 0 else 0, repeats=1)))
        if turn and time.perf_counter() > end:
            break
    return taken


def times_of(turns: Sequence[Sequence[Sample]], others: Sequence[Sequence[Sample]], clock: str) -> float:
    """Return a call's time as a multiple of the others': the median over turns, so that a turn of drift counts once."""

    def ms(turn: Sequence[Sample]) -> float:
        return statistics.median(sample.cpu_ms if clock == "cpu" else sample.wall_ms for sample in turn)

    return statistics.median(ms(mine) / ms(other) for mine, other in zip(turns, others, strict=True))


def timing(taken: Sequence[Sample], clock: str) -> Timing:
    """Summarise two samples or more by the clock that counts, "cpu" or "wall"."""
    by = {"cpu": [sample.cpu_ms for sample in taken], "wall": [sample.wall_ms for sample in taken]}
    low, middle, high = statistics.quantiles(by[clock], n=4, method="inclusive")
    return Timing(
        ms=middle, low_ms=low, high_ms=high, cpu_ms=statistics.median(by["cpu"]),
        wall_ms=statistics.median(by["wall"]), repeats=len(taken),
    )  # fmt: skip


def samples(
    call: Callable[[], object], budget_s: float, *, warm_up: int = WARM_UP, repeats: int = REPEATS
) -> Iterator[Sample]:
    """One turn: calls after the warm-up."""
    for _ in range(warm_up):
        call()
    begun, taken = time.perf_counter(), 0
    while True:
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        yield Sample((time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3)
        taken, spent = taken + 1, time.perf_counter() - begun
        if spent > budget_s or (taken >= repeats and spent > ENOUGH_S):
            return


def clock_of(variant: Variant, threads: int) -> str:
    """Return the clock that counts for a variant; see the module."""
    return "cpu" if variant.engine == "diffusers" and threads == 1 and not _is_on_cuda(variant) else "wall"


def _is_on_cuda(variant: Variant) -> bool:
    import torch

    from agents.engines.pipelines import placement

    return placement(variant.loading, has_cuda=torch.cuda.is_available())[0].startswith("cuda")


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def _peak_bytes() -> int:
    """Most that was resident. Not `ru_maxrss`: Linux lets a new process begin with its parent's."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
    return peak * 1024 or _resident_bytes()

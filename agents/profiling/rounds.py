"""Times the levels of a catalog in rounds, each level in a process of its own, and puts the rounds together."""

import hashlib
import json
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from agents.components.opening import Keeping
from agents.profiling.generation.orders import Order
from agents.profiling.generation.pool import pinned_pool, progress_bar
from agents.profiling.profiling import (
    NOTHING,
    REPEATS,
    WARM_UP,
    Besides,
    Round,
    Sample,
    Timing,
    clock_of,
    measure,
    timing,
)
from planner.catalog.entries import Variant, run_ms

ROUNDS = 5
LIBRARIES_MS = 5000.0  # that a new process takes to import them


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One variant on this machine: medians over all rounds, and the most memory of any."""

    clock: str  # "cpu" | "wall"
    cold_load_ms: float
    load_ms: float
    memory_bytes: int
    cuda_bytes: int
    calls: dict[int, Timing]  # batch size -> one call
    failed: dict[int, str]  # batch size -> why it could not be generated: memory
    is_compiled: bool = False  # whether its denoiser ran compiled code, in every round
    shaped: dict[str, Timing] = field(default_factory=dict)  # WIDTHxHEIGHT@STEPS -> one image
    unshaped: dict[str, str] = field(default_factory=dict)  # the same -> why it could not be generated
    disk_load_ms: float | None = None  # None: not measured
    kept_share: float = 1.0  # of the model's files that were in memory all the same, the largest


def time_levels(
    variants: Sequence[Variant], batches: Sequence[int], folder: Path, *, threads: int, budget_s: float,
    keeping: Keeping | None = None, besides: Besides = NOTHING, rounds: int = ROUNDS, devices: Sequence[int] = (),
) -> dict[str, Measured]:  # fmt: skip
    """Level -> its times; what is done is kept in `folder`, so that an interrupted run goes on where it was.

    `keeping`: where engines have their volume; None for the defaults. `devices`: cards, on each of which one level is
    timed at a time, side by side; () for one after the other, where the engine chooses.

    Raises:
        EngineFailed: a level cannot be loaded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    expected = {variant.name: expected_ms(variant, batches, budget_s, besides) for variant in variants}
    kinds = "-".join(map(str, batches))
    if besides != NOTHING:
        kinds += "-" + hashlib.sha256(repr(besides).encode()).hexdigest()[:8]
    digests = {each.name: Order(variant=each, prompts=(), seeds=(), threads=threads).digest() for each in variants}
    free = SimpleQueue[int | None]()
    for device in devices or (None,):
        free.put(device)

    def timed(variant: Variant, file: Path) -> str:
        if not file.exists():
            device = free.get()
            try:
                asked = (variant, batches, threads, budget_s / ROUNDS, keeping, besides)
                file.write_text(json.dumps(asdict(_in_new_process(device, *asked))))
            finally:
                free.put(device)
        return variant.name

    stems = {each.name: f"timing-{each.name}-{digests[each.name]}-{kinds}" for each in variants}
    files = {name: [folder / f"{stem}-{turn + 1}.json" for turn in range(rounds)] for name, stem in stems.items()}
    with progress_bar() as bar, ThreadPoolExecutor(len(devices) or 1) as beside:
        task = bar.add_task("timing", total=rounds * sum(expected.values()))
        begun = [beside.submit(timed, each, files[each.name][turn]) for turn in range(rounds) for each in variants]
        try:
            for done in as_completed(begun):
                name = done.result()
                bar.update(task, description=f"timed {name}", advance=expected[name])
        except BaseException:
            beside.shutdown(wait=False, cancel_futures=True)
            raise
    return {
        each.name: together([_read(file) for file in files[each.name]], clock_of(each, threads)) for each in variants
    }


def together(rounds: Sequence[Round], clock: str) -> Measured:
    """The rounds of one variant as one; a batch size that failed in one of them has no time."""
    failed = {batch: why for found in reversed(rounds) for batch, why in found.failed.items()}
    batches = set.intersection(*(set(found.calls) for found in rounds))
    cold = [found.disk_load_ms for found in rounds if found.disk_load_ms is not None]
    return Measured(
        clock=clock,
        cold_load_ms=statistics.median(found.cold_load_ms for found in rounds),
        load_ms=statistics.median(found.load_ms for found in rounds),
        memory_bytes=max(found.memory_bytes for found in rounds),
        cuda_bytes=max(found.cuda_bytes for found in rounds),
        calls={batch: timing([s for found in rounds for s in found.calls[batch]], clock) for batch in sorted(batches)},
        failed=failed,
        is_compiled=all(found.is_compiled for found in rounds),
        shaped={
            shape: timing([s for found in rounds for s in found.shaped[shape]], clock) for shape in rounds[0].shaped
            if all(shape in found.shaped for found in rounds)
        },
        unshaped={shape: why for found in rounds for shape, why in found.unshaped.items()},
        disk_load_ms=statistics.median(cold) if cold else None,
        kept_share=max(found.kept_share for found in rounds),
    )  # fmt: skip


def expected_ms(variant: Variant, batches: Sequence[int], budget_s: float, besides: Besides = NOTHING) -> float:
    """Predicted ms of one round of calls and loads."""
    shapes, own = besides.shapes(variant).values(), variant.width * variant.height * variant.steps
    shaped = [run_ms(variant, 1) * each.width * each.height * each.steps / own for each in shapes]
    calls = [*(run_ms(variant, batch) for batch in batches), *shaped]
    most_ms = 1000 * budget_s / ROUNDS  # of a call's repeats; one is made however long it takes
    return (
        sum((WARM_UP + 1) * ms + min((REPEATS - 1) * ms, most_ms) for ms in calls)
        + LIBRARIES_MS
        + (2 + besides.is_cold) * variant.load_ms
    )


def _in_new_process(device: int | None, *asked: Any) -> Round:
    """`measure` in a process of its own, which sees one card alone unless `device` is None."""
    with pinned_pool([] if device is None else [device]) as pool:
        return pool.submit(measure, *asked).result()


def _read(file: Path) -> Round:
    kept = json.loads(file.read_text())
    calls = {int(batch): [Sample(*sample) for sample in taken] for batch, taken in kept["calls"].items()}
    shaped = {shape: [Sample(*sample) for sample in taken] for shape, taken in kept.get("shaped", {}).items()}
    failed = {int(batch): why for batch, why in kept["failed"].items()}
    return Round(**kept | {"calls": calls, "failed": failed, "shaped": shaped})

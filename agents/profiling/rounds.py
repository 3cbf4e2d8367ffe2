"""Times the levels of a catalog in rounds, each level in a process of its own, and puts the rounds together."""

import json
import multiprocessing
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from agents.components.opening import Keeping
from agents.profiling.generation.orders import Order
from agents.profiling.generation.pool import progress_bar
from agents.profiling.profiling import REPEATS, WARM_UP, Round, Sample, Timing, clock_of, measure, timing
from planner.catalog.entries import Variant, run_ms

ROUNDS = 5


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


def time_levels(
    variants: Sequence[Variant], batches: Sequence[int], folder: Path, *, threads: int, budget_s: float,
    keeping: Keeping | None = None,
) -> dict[str, Measured]:  # fmt: skip
    """Level -> its times; what is done is kept in `folder`, so that an interrupted run goes on where it was.

    `keeping`: where engines have their volume; None for the defaults.

    Raises:
        EngineFailed: a level cannot be loaded.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rounds: dict[str, list[Round]] = {variant.name: [] for variant in variants}
    with progress_bar() as bar:
        expected = {variant.name: _expected_ms(variant, batches, budget_s) for variant in variants}
        task = bar.add_task("timing", total=ROUNDS * sum(expected.values()))
        for turn in range(ROUNDS):
            for variant in variants:
                bar.update(task, description=f"timing {variant.name}")
                digest = Order(variant=variant, prompts=(), seeds=(), threads=threads).digest()
                file = folder / f"timing-{variant.name}-{digest}-{'-'.join(map(str, batches))}-{turn + 1}.json"
                if not file.exists():
                    found = _in_new_process(variant, batches, threads, budget_s / ROUNDS, keeping)
                    file.write_text(json.dumps(asdict(found)))
                rounds[variant.name].append(_read(file))
                bar.advance(task, expected[variant.name])
    return {variant.name: together(rounds[variant.name], clock_of(variant, threads)) for variant in variants}


def together(rounds: Sequence[Round], clock: str) -> Measured:
    """The rounds of one variant as one; a batch size that failed in one of them has no time."""
    failed = {batch: why for found in reversed(rounds) for batch, why in found.failed.items()}
    batches = set.intersection(*(set(found.calls) for found in rounds))
    return Measured(
        clock=clock,
        cold_load_ms=statistics.median(found.cold_load_ms for found in rounds),
        load_ms=statistics.median(found.load_ms for found in rounds),
        memory_bytes=max(found.memory_bytes for found in rounds),
        cuda_bytes=max(found.cuda_bytes for found in rounds),
        calls={batch: timing([s for found in rounds for s in found.calls[batch]], clock) for batch in sorted(batches)},
        failed=failed,
        is_compiled=all(found.is_compiled for found in rounds),
    )


def _expected_ms(variant: Variant, batches: Sequence[int], budget_s: float) -> float:
    """Predicted ms of one round of calls and loads."""
    calls = (WARM_UP + REPEATS) * sum(run_ms(variant, batch) for batch in batches)
    return min(calls, 1000 * budget_s * len(batches) / ROUNDS) + 2 * variant.load_ms + 5000


def _in_new_process(
    variant: Variant, batches: Sequence[int], threads: int, budget_s: float, keeping: Keeping | None
) -> Round:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, variant, batches, threads, budget_s, keeping).result()


def _read(file: Path) -> Round:
    kept = json.loads(file.read_text())
    calls = {int(batch): [Sample(*sample) for sample in taken] for batch, taken in kept["calls"].items()}
    return Round(**kept | {"calls": calls, "failed": {int(b): why for b, why in kept["failed"].items()}})

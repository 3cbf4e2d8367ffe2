"""The time that a profile will take, by one timed call of each level, and what of it a budget leaves."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from agents.components.opening import Keeping
from agents.engines import open_engine
from agents.profiling.generation.orders import Order, generate_images
from agents.profiling.generation.pool import pinned_pool, work_ms
from agents.profiling.generation.sweeps import steps_to_try
from agents.profiling.profiling import REPEATS, WARM_UP, samples, usual_order
from agents.profiling.rounds import expected_ms
from agents.profiling.run import Wanted, generated_levels, pairs_of, sweep_ms
from planner.catalog.entries import Variant

LEAST: Final = 4  # prompts
TIMING_SHARE: Final = 0.5  # most of a budget that timing may take, beyond one round


def probe(variant: Variant, threads: int, keeping: Keeping | None) -> tuple[float, float]:
    """Return the ms to load a level into this process, and of one call for one image. Raises EngineFailed."""
    begun = time.perf_counter()
    engine = open_engine(variant.engine, variant, threads, keeping)
    load_ms = (time.perf_counter() - begun) * 1e3
    (sample,) = samples(partial(generate_images, engine, usual_order(variant, 1)), 0.0)
    engine.close()
    return load_ms, sample.wall_ms


def probed(wanted: Wanted, folder: Path) -> dict[str, Variant]:
    """Level -> its variant with the times of a probe in a new process, where a batch takes as long as its images.

    Probes are kept in `folder`. Raises EngineFailed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for variant in (wanted.catalog.level(name) for name in wanted.levels):
        digest = Order(variant=variant, prompts=(), seeds=(), threads=wanted.threads).digest()
        file = folder / f"probe-{variant.name}-{digest}.json"
        if not file.exists():
            with pinned_pool(wanted.devices[:1]) as pool:
                file.write_text(json.dumps(pool.submit(probe, variant, wanted.threads, wanted.keeping).result()))
        load_ms, call_ms = json.loads(file.read_text())
        found[variant.name] = replace(variant, latency_ms={1: call_ms}, load_ms=load_ms)
    return found


class Work(NamedTuple):
    """The work of a profile in ms of one process, and its number of calls or images."""

    timing_ms: float
    timing_calls: int  # at least
    images_ms: float
    images: int
    sweeps_ms: float
    drafts: int  # that are refined

    def seconds(self, wanted: Wanted, jobs: int) -> float:
        """Return the time that all of it takes."""
        return (self.timing_ms / (len(wanted.devices) or 1) + (self.images_ms + self.sweeps_ms) / jobs) / 1000


def work_of(wanted: Wanted, variants: Mapping[str, Variant]) -> Work:
    """Return the work that is wanted, by the times of the variants."""
    timed = sum(expected_ms(each, wanted.batches, wanted.budget_s, wanted.besides) for each in variants.values())
    kinds = sum(len(wanted.batches) + len(wanted.besides.shapes(each)) for each in variants.values())
    levels = generated_levels(wanted) if wanted.is_generating else []
    heavies = [variants[pair.heavy] for pair in pairs_of(wanted) if pair.heavy in levels and pair.light in levels]
    count = len(wanted.asked.prompts)
    drafts = min(wanted.drafts, count)
    return Work(
        timing_ms=wanted.rounds * timed,
        timing_calls=wanted.rounds * kinds * (WARM_UP + REPEATS),
        images_ms=sum(work_ms(variants[name], count) for name in levels),
        images=len(levels) * count,
        sweeps_ms=sum(sweep_ms(each, wanted) for each in heavies),
        drafts=sum(drafts * len(steps_to_try(each.steps)) for each in heavies),
    )


def within(wanted: Wanted, variants: Mapping[str, Variant], jobs: int, limit_s: float) -> Wanted:
    """Return what there is time for: fewer rounds of timing, then fewer prompts and drafts in equal shares.

    What is cut is in `left_out`. The least is one round and four prompts, however long they take.
    """
    whole = work_of(wanted, variants)
    if whole.seconds(wanted, jobs) <= limit_s:
        return wanted
    round_s = whole.timing_ms / wanted.rounds / (len(wanted.devices) or 1) / 1000
    rounds = max(1, min(wanted.rounds, int(limit_s * TIMING_SHARE / round_s)))
    rest_s = (whole.images_ms + whole.sweeps_ms) / jobs / 1000
    share = max(0.0, min(1.0, (limit_s - rounds * round_s) / rest_s)) if rest_s else 1.0
    count, drafts = len(wanted.asked.prompts), min(wanted.drafts, len(wanted.asked.prompts))
    prompts, refined = max(LEAST, int(count * share)), max(1, int(drafts * share))
    cuts = [(wanted.rounds - rounds, wanted.rounds, "rounds of timing")]
    if wanted.is_generating:
        cuts += [(count - prompts, count, "prompts"), (drafts - refined, drafts, "drafts to refine")]
    words = tuple(f"{cut} of {all_} {what}: no time within --budget" for cut, all_, what in cuts if cut)
    return replace(wanted, rounds=rounds, asked=wanted.asked.first(prompts), drafts=refined, left_out=words)


def in_words(wanted: Wanted, variants: Mapping[str, Variant], jobs: int) -> Iterator[str]:
    """Yield the lines of the plan of time."""
    work = work_of(wanted, variants)
    for name, variant in variants.items():
        yield f"{name}: loads in {variant.load_ms / 1000:.3g} s, an image in {variant.latency_ms[1]:.3g} ms (one call)"
    yield f"timing: {work.timing_calls} calls or more, {_time(work.timing_ms / (len(wanted.devices) or 1))}"
    if work.images:
        yield f"images: {work.images}, {_time(work.images_ms / jobs)}"
        yield f"drafts to refine: {work.drafts}, {_time(work.sweeps_ms / jobs)}"
    yield from (f"left out: {line}" for line in wanted.left_out)
    processes = f"{len(wanted.devices)} cards" if wanted.devices else f"--jobs {jobs}"
    whole = _time(1000 * work.seconds(wanted, jobs))
    yield f"in all about {whole} with {processes}, less what an earlier run has finished"


def _time(ms: float) -> str:
    s = ms / 1000
    return f"{s:.0f} s" if s < 100 else f"{s / 60:.0f} min" if s < 6000 else f"{s / 3600:.1f} h"

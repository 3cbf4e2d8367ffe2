"""Measures a worker's memory while requests go through all combinations of a variant's components.

The components come from a folder as their remote, by way of a volume and host memory whose budgets hold a part of them,
to a device that holds two of the bases. Each request is generated, with one step. Sampled are the resident set of the
process and the bytes that each tier holds.
"""

import itertools
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import psutil
from PIL import Image

from agents.components.opening import Keeping
from agents.engines import GenerationTask, model_source
from agents.engines.diffusers_engine import DiffusersEngine, load
from planner.catalog.components import ADAPTER, CONTROL
from planner.catalog.entries import Variant
from planner.catalog.options import resolve_options
from planner.components.component import Tier
from schemas.messages import GenerateOptions
from streams.settings import WorkerComponentSettings
from streams.weights.publish import publish
from streams.weights.remotes.folder import FolderRemote

SAMPLES: Final = 100
BASES_ON_DEVICE: Final = 2.5  # in largest bases: two, and combinations
BASES_ELSEWHERE: Final = 2.2  # in host memory and on the volume: two, and adapters
MAX_ADAPTERS: Final = 2  # in one request
WEIGHT: Final = 0.7  # of each adapter


def memory(variant: Variant, requests: int, seed: int) -> dict[str, Any]:
    """Return resident memory and the bytes in each tier over a number of requests, in an order drawn by the seed.

    Raises PochadeError for a component that does not lie in a folder here.
    """
    with tempfile.TemporaryDirectory(prefix="pochade-memory-") as name:
        folder = pathlib.Path(name)
        for each in variant.components:
            remote = FolderRemote(folder / "remote" / each.kind / each.name)
            publish(each.id, pathlib.Path(model_source(each.source)), remote)
        largest = max(variant.base(base).bytes for base in variant.bases)
        settings = WorkerComponentSettings(
            remote=str(folder / "remote"), volume=str(folder / "volume"),
            volume_bytes=int(BASES_ELSEWHERE * largest), host_bytes=int(BASES_ELSEWHERE * largest),
            device_bytes=int(BASES_ON_DEVICE * 2 * largest),  # a CPU holds single precision, twice what files have
        )  # fmt: skip
        engine = load(variant, 1, Keeping(settings=settings))
        try:
            return _measured(engine, variant, requests, seed)
        finally:
            engine.close()


def combinations_of(variant: Variant) -> list[GenerateOptions]:
    """Return every combination of a base, at most two adapters that fit it, and a control or none.

    The image that a control follows is the caller's to give.
    """
    adapters = [each for each in variant.components if each.kind == ADAPTER]
    controls = [each for each in variant.components if each.kind == CONTROL]
    found = []
    for base in variant.bases:
        fitting = [each.name for each in adapters if not each.bases or base in each.bases]
        led = [(each.name,) for each in controls if not each.bases or base in each.bases]
        for count in range(MAX_ADAPTERS + 1):
            for names, control in itertools.product(itertools.combinations(fitting, count), [(), *led]):
                weights = (WEIGHT,) * len(names)
                found.append(GenerateOptions(
                    model=base, adapters=names, adapter_weights=weights, controls=control, steps=1,
                ))  # fmt: skip
    return found


def _measured(engine: DiffusersEngine, variant: Variant, requests: int, seed: int) -> dict[str, Any]:
    store = engine.store
    assert store is not None, f"{variant.name} lists components"
    process, samples = psutil.Process(), list[dict[str, Any]]()
    over = dict.fromkeys((Tier.VOLUME, Tier.HOST, Tier.DEVICE), 0)
    known = combinations_of(variant)
    for at, options in enumerate(_in_turns(known, requests, seed), 1):
        how = resolve_options(options, variant)
        blank = (Image.new("RGB", (how.width, how.height)),) * len(options.controls)
        task = GenerationTask(request_id=f"r-{at}", prompt="a red heart", seed=at, controls=blank)
        assert engine.generate([task], how, lambda: False) is not None, "never stopped"
        report = store.report()
        for tier in over:
            over[tier] += report.held_bytes.get(tier.label, 0) > report.budget_bytes[tier.label]
        if at == requests or at % max(1, requests // SAMPLES) == 0:
            held = {tier.label: report.held_bytes.get(tier.label, 0) for tier in over}
            samples.append({"requests": at, "rss_bytes": process.memory_info().rss, "held_bytes": held})
    report = store.report()
    return {
        "requests": requests,
        "combinations": len(known),
        "budget_bytes": {tier.label: report.budget_bytes[tier.label] for tier in over},
        "over_budget": {tier.label: count for tier, count in over.items()},
        "hits": report.hits,
        "moved_bytes": report.moved_bytes,
        "samples": samples,
    }


def _in_turns(known: Sequence[GenerateOptions], requests: int, seed: int) -> list[GenerateOptions]:
    """All combinations in a drawn order, again and again, each time in another."""
    dice, found = np.random.default_rng(seed), list[GenerateOptions]()
    while len(found) < requests:
        found += [known[int(at)] for at in dice.permutation(len(known))]
    return found[:requests]

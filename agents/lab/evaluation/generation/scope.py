"""What an evaluation generates: levels, pairs, and prompts that no model was trained on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agents.engines import EngineFailed, model_source
from agents.lab.world import free_form
from agents.lab.world.stream import STANDARD, Stream
from agents.lab.world.styles import style_of
from agents.profiling.generation.pool import work_ms
from agents.profiling.generation.sweeps import steps_to_try
from agents.profiling.seeded_prompts import SeededPrompts
from agents.world.layout import SIZE
from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog
from schemas.errors import PochadeError

_STREAM = 5  # keeps these draws apart from those of training, which begin with the seed alone
KINDS = ("test", "calibration", "stored", "profile", "reuse")  # sets of prompts that share none but by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The number of prompts of each kind, the steps to begin at, and the time for timing."""

    catalog: Catalog
    models: Path  # where classifiers, discriminators and the scorer lie
    seed: int
    count: int  # prompts that figures are reported for
    calibration: int  # others, on which the hybrid and thresholds are chosen
    swept: int  # the first of `count`, which are generated from every step
    stored: int  # others, whose images are there for reuse
    steps: int = 7  # of the heavy level, to begin at
    timing_s: float = 60.0  # spent on timing the levels in turns, and as much on the steps
    threads: int = 1
    stream: str = "standard"  # a key of world.stream.STREAMS

    @property
    def sweep_steps(self) -> tuple[int, ...]:
        """The start steps of the main pair's heavy level; the cascade's own is always among them."""
        pair = self.catalog.pair()
        tried = steps_to_try(self.catalog.level(pair.heavy).steps, self.steps)
        return tuple(sorted({*tried, pair.refine_from_step} - {0}))

    @property
    def sweep_ms(self) -> float:
        """Work of one sweep."""
        heavy = self.catalog.level(self.catalog.pair().heavy)
        return sum(work_ms(heavy, self.swept, k) for k in self.sweep_steps)


def scope(
    catalog: Catalog, models: Path, seed: int, count: int, *, is_quick: bool = False, threads: int = 1,
    stream: str = "standard",
) -> Scope:  # fmt: skip
    """The usual shares; `is_quick` checks that everything works rather than how well."""
    if is_quick:
        count = min(count, 48)
        return Scope(
            catalog=catalog, models=models, seed=seed, count=count, calibration=16, swept=min(count, 12), stored=8,
            steps=2, timing_s=1.0, threads=threads, stream=stream,
        )  # fmt: skip
    return Scope(
        catalog=catalog, models=models, seed=seed, count=count, calibration=max(32, min(count // 4, 1000)),
        swept=min(count, 300), stored=min(300, max(16, count // 3)), threads=threads,
        stream=stream,
    )  # fmt: skip


def stream_of_draws(seed: int, kind: str) -> list[int]:
    """Return the seed of the draws of one kind of prompts, apart from those of the others and of training."""
    return [seed, _STREAM, KINDS.index(kind)]


def fresh(seed: int, kind: str, count: int, stream: Stream = STANDARD) -> SeededPrompts:
    """Prompts of a stream with seeds of noise; the first ones are the same whatever the count."""
    rng = np.random.default_rng(stream_of_draws(seed, kind))
    drawn = [(*free_form.asked(rng, stream), int(rng.integers(2**31))) for _ in range(count)]
    return SeededPrompts(
        prompts=tuple(prompt for prompt, _, _ in drawn),
        seeds=tuple(noise for _, _, noise in drawn),
        captions=tuple(scene.caption for _, scene, _ in drawn),
    )


def levels(catalog: Catalog, missing: list[str]) -> dict[str, Variant]:
    """The catalog's variants that can be judged here; `missing` gets a line for each that cannot.

    Raises PochadeError where that is one of the main pair.
    """
    found = {}
    for name, variant in catalog.variants.items():
        why = _fault(variant)
        if not why:
            found[name] = variant
        elif name in catalog.pair()[:2]:
            raise PochadeError(f"level {name!r} of the main pair cannot be evaluated: {why}")
        else:
            missing.append(f"level {name}: {why}")
    return found


def _fault(variant: Variant) -> str:
    if (variant.width, variant.height) != (SIZE, SIZE):
        return f"it generates {variant.width} x {variant.height} px, facts are read in {SIZE} x {SIZE}"
    try:
        model_source(variant.model)
    except EngineFailed as error:
        return str(error)
    return ""


def pairs(catalog: Catalog, found: dict[str, Variant], missing: list[str]) -> dict[str, tuple[str, str]]:
    """Name -> (light, heavy): the main pair; and heavy with a strong light level, where most prompts tie.

    Strong: of the levels of one style between the two in cost, the one of the highest quality in the catalog.
    """
    light, heavy, *_ = catalog.pair()
    named = {f"{light} and {heavy}": (light, heavy)}
    low, high = (run_ms(found[name], 1) for name in (light, heavy))
    between = [
        name
        for name, variant in found.items()
        if low < run_ms(variant, 1) < high and style_of(variant) is style_of(found[heavy])
    ]
    if between:
        strong = max(between, key=lambda name: (found[name].quality or 0.0, run_ms(found[name], 1)))
        named[f"{strong} and {heavy}"] = (strong, heavy)
    else:
        missing.append(f"a strong light level: none between {light} and {heavy} in cost")
    return named

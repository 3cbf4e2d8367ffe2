"""Measures a catalog's levels on one stream of requests: generates, keeps what is done, and makes the profile of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from agents.lab.profiling.reuse import tables
from agents.lab.profiling.reuse.by_image import find_by_image, image_floors, image_neighbours
from agents.lab.profiling.reuse.diversity import IMAGES, NEIGHBOUR, NEIGHBOURS, diversity
from agents.lab.profiling.reuse.diversity import NOISE as FROM_NOISE
from agents.lab.profiling.reuse.floors import TOLERANCE, compose, floors_alone, guard_limits, guard_with
from agents.lab.profiling.reuse.leak import Inherited, inherited, leaks
from agents.lab.profiling.reuse.observed import Observed
from agents.lab.profiling.reuse.orders import NEAREST, NOISE, UNRELATED, Images, Key, varied
from agents.lab.profiling.reuse.stream import draw_requests, find_neighbours
from agents.lab.world.reading import Reading, read
from agents.lab.world.scene import Scene
from agents.lab.world.stream import Stream
from agents.lab.world.styles import style_of
from agents.models.scorer import Scorer
from agents.profiling.generation.orders import GeneratedImages
from agents.profiling.generation.pool import GenerationPool, progress_bar
from agents.profiling.statistics.intervals import Resampling
from agents.world.layout import SIZE
from planner.catalog.caching import CachingMeasurement, Diversity, Leak, best_of
from planner.catalog.entries import Variant, run_ms
from planner.catalog.model import Catalog
from planner.reuse.guard import Compare
from planner.reuse.terms import GuardShares
from schemas.errors import PochadeError

KEY: Final = "scorer"  # what embeds prompts
MIN_STEPS: Final = 3  # of a level
LEAK_PAIRS: Final = 300  # whose images are read for leaks, of the nearest and of the unrelated ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of a measurement of caching."""

    catalog: Catalog
    levels: tuple[str, ...]
    requests: int
    seed: int
    stream: Stream
    tolerance: float = TOLERANCE  # of quality, over all requests
    threads: int = 1


class Judges(NamedTuple):
    """The functions that embed prompts and compare their facts."""

    scorer: Scorer
    compare: Compare


def levels_to_measure(catalog: Catalog, asked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the asked levels, or all that have steps to skip and whose images facts are read in, the dearest first.

    Raises PochadeError where an asked level is not of these, or no level is.
    """
    faults = {name: _fault(catalog.level(name)) for name in (asked or catalog.variants)}
    fit = [name for name, fault in faults.items() if not fault]
    if not fit or (asked and len(fit) < len(asked)):
        why = "; ".join(f"level {name!r} {fault}" for name, fault in faults.items() if fault)
        raise PochadeError(f"caching of catalog {catalog.name!r} cannot be measured: {why}; name others by --levels")
    return tuple(sorted(fit, key=lambda name: -run_ms(catalog.level(name), 1)))


def _fault(variant: Variant) -> str:
    if variant.steps < MIN_STEPS:
        return f"has {variant.steps} steps, and {MIN_STEPS} or more are needed to skip some"
    if (variant.width, variant.height) != (SIZE, SIZE):
        return f"generates {variant.width} x {variant.height} px, and facts are read in {SIZE} x {SIZE}"
    return ""


def measure(
    wanted: Wanted, pool: GenerationPool, judges: Judges, about: Mapping[str, str]
) -> dict[str, CachingMeasurement]:
    """Measure every level on the same requests. `about`: `created` and `command`.

    Raises:
        EngineFailed: a level cannot be loaded.
        CannotRefine: a level cannot begin with latents.
        PochadeError: a level gives no latents.
    """
    drawn = draw_requests(wanted.seed, wanted.requests, wanted.stream)
    vectors = judges.scorer.embed_prompts(drawn.asked.prompts)
    neighbours = find_neighbours(drawn.asked.prompts, vectors, judges.compare, wanted.seed)
    found = {}
    for level in wanted.levels:
        images = Images(
            variant=wanted.catalog.level(level), asked=drawn.asked, vectors=vectors, neighbours=neighbours,
            seed=wanted.seed, threads=wanted.threads,
        )  # fmt: skip
        found[level] = _Study(wanted, images, drawn.scenes, judges).profile(pool, about)
    return found


class _Study:
    """One level on the requests."""

    def __init__(self, wanted: Wanted, images: Images, scenes: Sequence[Scene], judges: Judges) -> None:
        self._wanted, self._images, self._scenes, self._judges = wanted, images, scenes, judges
        self._how = Resampling(seed=wanted.seed)

    def profile(self, pool: GenerationPool, about: Mapping[str, str]) -> CachingMeasurement:
        """Generate what is not generated yet, and judge it."""
        images = self._images
        named = images.name(Key(NOISE))
        noise = pool.generate({named: images.from_noise()}, images.later_ms)[named]
        later = images.later(noise.latents())
        done = pool.generate({images.name(key): order for key, order in later.items()})
        generated = {key: done[images.name(key)] for key in later}
        limits = guard_limits(images.observed(noise, generated), self._wanted.tolerance)
        allowed = images.allowed(noise.latents(), limits)
        done = pool.generate({images.name(key): order for key, order in allowed.items()})
        generated |= {key: done[images.name(key)] for key in allowed}
        seen = images.observed(noise, generated, limits)
        leak, varied = self._leaks(seen, noise, generated), self._diversity(seen, generated)
        return replace(self._tabulated(seen, limits, about, leak, varied), **self._by_image(pool, seen, noise))

    def _by_image(self, pool: GenerationPool, seen: Observed, noise: GeneratedImages) -> dict[str, Any]:
        """Return the profile's part on beginning from the image that fits a prompt best."""
        images = self._images
        found = find_by_image(seen.vectors, self._judges.scorer.embed_images(list(noise.images())))
        wanted = images.by_image(noise.latents(), found)
        done = pool.generate({images.name(key): order for key, order in wanted.items()}) if wanted else {}
        generated = {key: done[images.name(key)] for key in wanted}
        begun = images.marks_by_image(seen, generated, found)
        return {
            "image_neighbours": image_neighbours(found, seen.prompts, self._judges.compare),
            "image_floors": image_floors(found, seen.noise, begun, seen.steps).floors,
        }

    def _tabulated(
        self,
        seen: Observed,
        limits: GuardShares,
        about: Mapping[str, str],
        leak: tuple[Leak, ...],
        varied: tuple[Diversity, ...],
    ) -> CachingMeasurement:
        tolerance, how = self._wanted.tolerance, self._how
        alone = floors_alone(seen, tolerance)
        floors = {step: compose(seen, alone, limits, tolerance, seen.share(step)) for step in seen.starts}
        guard = guard_with(tuple(floors.values()), limits)
        routes = tables.routes(seen, floors, guard, self._judges.compare, how)
        return CachingMeasurement(
            created=about["created"],
            command=about["command"],
            key=KEY,
            dimension=seen.vectors.shape[1],
            seed=self._wanted.seed,
            requests=seen.count,
            steps=seen.steps,
            tolerance=tolerance,
            exact_share=round(float(np.mean([p in seen.prompts[:at] for at, p in enumerate(seen.prompts)])), 5),
            guard=guard,
            routes=routes,
            evictions=tables.evictions(seen, best_of(routes), guard, self._judges.compare),
            floors_alone=alone,
            hits=tables.hit_rates(seen, alone),
            neighbours=tables.neighbours(seen, guard),
            similarity=tables.bands(seen, how),
            unrelated=tables.begun_from(seen, seen.unrelated, seen.unrelated_rows, how),
            differences=tables.differences(seen, how),
            verdicts=tables.verdicts(seen),
            against_fewer_steps=tables.against_fewer_steps(seen, alone, how),
            leak=leak,
            diversity=varied,
        )

    def _leaks(
        self, seen: Observed, noise: GeneratedImages, generated: Mapping[Key, GeneratedImages]
    ) -> tuple[Leak, ...]:
        near = seen.neighbours
        found: tuple[Leak, ...] = ()
        for begun, rows, sources in (
            (NEAREST, self._images.nearest_rows, near.nearest),
            (UNRELATED, self._images.unrelated_rows, near.unrelated),
        ):
            stated = [inherited(self._scenes[own], self._scenes[sources[own]]) for own in rows]
            chosen = [at for at, each in enumerate(stated) if each.kinds()][:LEAK_PAIRS]
            if chosen:
                from_noise = noise.images()[rows[chosen]]
                begun_at = {step: generated[Key(begun, step)].images()[chosen] for step in seen.starts}
                found += self._leaks_of(begun, [stated[at] for at in chosen], {0: from_noise, **begun_at})
        return found

    def _leaks_of(self, begun: str, stated: Sequence[Inherited], images: Mapping[int, np.ndarray]) -> tuple[Leak, ...]:
        style, steps = style_of(self._images.variant), self._images.variant.steps
        readings: dict[float, list[Reading]] = {}
        with progress_bar() as bar:
            task = bar.add_task(f"reading images begun from {begun}", total=sum(map(len, images.values())))
            for step, some in images.items():
                readings[step / steps] = [read(image, style) for image in some]
                bar.advance(task, len(some))
        return leaks(begun, stated, readings)

    def _diversity(self, seen: Observed, generated: Mapping[Key, GeneratedImages]) -> tuple[Diversity, ...]:
        found: list[Diversity] = []
        for begun in (FROM_NOISE, NEIGHBOURS, NEIGHBOUR):
            for step in (0, *seen.starts):
                if (key := varied(begun, step)) in generated:
                    features = self._judges.scorer.features(list(generated[key].images()))
                    by_prompt = features.reshape(-1, IMAGES, features.shape[1])
                    found.append(diversity(begun, seen.share(step), by_prompt, self._how))
        return tuple(found)

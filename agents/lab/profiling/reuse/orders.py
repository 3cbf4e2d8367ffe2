"""Orders for the images of a measurement: from noise, from stored latents, in fewer steps, several of one prompt."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from agents.lab.profiling.reuse import diversity
from agents.lab.profiling.reuse.by_image import ByImage
from agents.lab.profiling.reuse.observed import Marks, Neighbours, Observed
from agents.profiling.generation.orders import GeneratedImages, Order, StoredLatents
from agents.profiling.generation.pool import work_ms
from agents.profiling.generation.sweeps import order, steps_to_try
from agents.profiling.seeded_prompts import SeededPrompts
from planner.catalog.entries import Variant
from planner.reuse.guard import allowed_share
from planner.reuse.steps import step_of
from planner.reuse.terms import GuardShares

NOISE, NEAREST, ALLOWED, UNRELATED, FEWER = "noise", "nearest", "allowed", "unrelated", "fewer steps"
BY_IMAGE: Final = "fitting image"
DETAILED: Final = 800  # the first requests, which are begun from anything at every K, whatever the guard says
_VARIED_STEPS: Final = 3  # K at which diversity is measured


class Key(NamedTuple):
    """The images of an order."""

    begun: str  # NOISE, NEAREST, ALLOWED, UNRELATED, FEWER, BY_IMAGE, or "varied " and one of `diversity`
    step: int = 0  # K


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Images:
    """The images of one level that are to be generated."""

    variant: Variant
    asked: SeededPrompts
    vectors: np.ndarray  # [n, d] of the prompts
    neighbours: Neighbours
    seed: int
    threads: int = 1

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps K that are measured, rising."""
        return steps_to_try(self.variant.steps)

    @property
    def later_ms(self) -> float:
        """Predicted work of all that follows the images from noise."""
        begun = len(self.nearest_rows) + len(self.unrelated_rows)
        fewer = sum(work_ms(self._shortened(step), len(self.fewer_rows)) for step in self.steps)
        return sum(work_ms(self.variant, begun, step) for step in self.steps) + fewer

    @property
    def nearest_rows(self) -> np.ndarray:
        """int [m]: requests that begin from their nearest one at every K: the first, and whatever the guard passes."""
        rows = self.neighbours.rows
        begun: np.ndarray = rows[self.neighbours.passes[rows] | (rows < DETAILED)]
        return begun

    @property
    def unrelated_rows(self) -> np.ndarray:
        """int [m]: requests that begin from an unrelated one at every K."""
        return self.neighbours.unrelated_rows[self.neighbours.unrelated_rows < DETAILED]

    @property
    def fewer_rows(self) -> np.ndarray:
        """int [m]: requests that are generated in fewer steps: those that reuse is compared on."""
        return np.flatnonzero(self.neighbours.passes)

    def allowed_rows(self, limits: GuardShares) -> dict[int, np.ndarray]:
        """K -> int [m]: other requests that the guard's limits let begin at K."""
        known = set(self.nearest_rows.tolist())
        shares = {
            at: allowed_share(limits, self.neighbours.known(at)) for at in self.neighbours.rows if at not in known
        }
        most = {at: step_of(share, self.variant.steps) for at, share in shares.items()}
        rows = {step: np.array([at for at, last in most.items() if step <= last], int) for step in self.steps}
        return {step: some for step, some in rows.items() if len(some)}

    def name(self, key: Key) -> str:
        """Their name on the progress bar and in the files of parts."""
        return f"{self.variant.name} {key.begun}" + (f" {key.step}" if key.step else "")

    def from_noise(self) -> Order:
        """All requests at K = 0; their latents are kept."""
        return replace(self._order(self.asked), keeps_latents=True)

    def later(self, latents: StoredLatents) -> dict[Key, Order]:
        """All the others, which begin with those of `from_noise`."""
        return dict(self._later(latents))

    def allowed(self, latents: StoredLatents, limits: GuardShares) -> dict[Key, Order]:
        """The images of `allowed_rows`, once the limits are known."""
        rows, nearest = self.allowed_rows(limits), self.neighbours.nearest
        return {Key(ALLOWED, step): self._begun(latents, step, some, nearest) for step, some in rows.items()}

    def by_image_rows(self, found: ByImage) -> np.ndarray:
        """int [m]: of the first requests those whose best fitting image is not that of the nearest prompt."""
        rows = found.rows[found.rows < DETAILED]
        other: np.ndarray = rows[found.nearest[rows] != self.neighbours.nearest[rows]]
        return other

    def by_image(self, latents: StoredLatents, found: ByImage) -> dict[Key, Order]:
        """The images of `by_image_rows` at every K."""
        rows = self.by_image_rows(found)
        return {
            Key(BY_IMAGE, step): self._begun(latents, step, rows, found.nearest) for step in self.steps if len(rows)
        }

    def marks_by_image(
        self, seen: Observed, generated: Mapping[Key, GeneratedImages], found: ByImage
    ) -> dict[int, Marks]:
        """Return K -> quality of images begun from the best fitting one; nan beyond the first requests."""
        rows = self.by_image_rows(found)
        same = np.flatnonzero((found.nearest >= 0) & (found.nearest == self.neighbours.nearest))
        same = same[same < DETAILED]
        marks: dict[int, Marks] = {}
        for step in self.steps:
            of = _spread(seen.nearest[step].at(same), same, seen.count)
            if len(rows):
                of.quality[rows], of.facts[rows] = _marks(generated[Key(BY_IMAGE, step)])
            marks[step] = of
        return marks

    def _later(self, latents: StoredLatents) -> Iterator[tuple[Key, Order]]:
        near = self.neighbours
        for step in self.steps:
            yield Key(NEAREST, step), self._begun(latents, step, self.nearest_rows, near.nearest)
            yield Key(UNRELATED, step), self._begun(latents, step, self.unrelated_rows, near.unrelated)
            yield Key(FEWER, step), self._order(self.asked.at(self.fewer_rows), self._shortened(step))
        yield from self._varied(latents)

    def _begun(self, latents: StoredLatents, step: int, rows: np.ndarray, sources: np.ndarray) -> Order:
        return replace(self._order(self.asked.at(rows)), begin=step, latents=latents.at(sources[rows]))

    def _varied(self, latents: StoredLatents) -> Iterator[tuple[Key, Order]]:
        """Several images of some prompts, each with a seed of its own: prompt by prompt in a row."""
        prompts, count = self.asked.prompts, diversity.IMAGES
        chosen = diversity.prompts_to_vary(prompts)
        sources = {int(at): diversity.different_neighbours(prompts, self.vectors, at, count) for at in chosen}
        rows = [at for at, found in sources.items() if len(found) == count]
        if not rows:
            return
        repeated = self.asked.at(np.repeat(rows, count))
        seeds = np.random.default_rng([self.seed, count]).integers(2**31, size=len(repeated.seeds))
        noise = self._order(replace(repeated, seeds=tuple(seeds.tolist())))
        yield varied(diversity.NOISE), noise
        for step in steps_to_try(self.variant.steps, _VARIED_STEPS):
            different = latents.at(np.concatenate([sources[at] for at in rows]))
            yield varied(diversity.NEIGHBOURS, step), replace(noise, begin=step, latents=different)
            nearest = latents.at(np.repeat([sources[at][0] for at in rows], count))
            yield varied(diversity.NEIGHBOUR, step), replace(noise, begin=step, latents=nearest)

    def _order(self, asked: SeededPrompts, variant: Variant | None = None) -> Order:
        return order(variant or self.variant, asked, threads=self.threads)

    def _shortened(self, step: int) -> Variant:
        """The level in N - K steps from noise, as its scheduler spaces them."""
        left = self.variant.steps - step
        times = {batch: ms * left / self.variant.steps for batch, ms in self.variant.latency_ms.items()}
        return replace(self.variant, steps=left, latency_ms=times)

    def observed(
        self, noise: GeneratedImages, generated: Mapping[Key, GeneratedImages], limits: GuardShares | None = None
    ) -> Observed:
        """Return the marks of the requests' images; with `limits` also of those in `allowed`."""

        def marks(begun: str, rows: np.ndarray) -> dict[int, Marks]:
            found = {key.step: _marks(images) for key, images in generated.items() if key.begun == begun}
            return {step: _spread(each, rows, len(self.asked.prompts)) for step, each in found.items()}

        nearest = marks(NEAREST, self.nearest_rows)
        for step, rows in (self.allowed_rows(limits) if limits else {}).items():
            later = _marks(generated[Key(ALLOWED, step)])
            nearest[step].quality[rows], nearest[step].facts[rows] = later

        return Observed(
            steps=self.variant.steps,
            prompts=self.asked.prompts,
            vectors=self.vectors,
            neighbours=self.neighbours,
            noise=_marks(noise),
            nearest=nearest,
            unrelated=marks(UNRELATED, self.unrelated_rows),
            fewer=marks(FEWER, self.fewer_rows),
        )


def varied(begun: str, step: int = 0) -> Key:
    """The key of several images of some prompts."""
    return Key(f"varied {begun}", step)


def _marks(images: GeneratedImages) -> Marks:
    return Marks(images.quality, images.facts)


def _spread(marks: Marks, rows: np.ndarray, count: int) -> Marks:
    """Marks of some requests among those of all; nan elsewhere."""
    quality, facts = np.full(count, np.nan), np.full(count, np.nan)
    quality[rows], facts[rows] = marks.quality, marks.facts
    return Marks(quality, facts)

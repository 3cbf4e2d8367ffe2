"""The prompts that images are generated for, each with the seed of its noise."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from schemas.ids import refinement_seed

STAGE: Final = 1  # of the escalated job: the one after the draft's


@dataclass(frozen=True, slots=True, kw_only=True)
class SeededPrompts:
    """Prompts with the seed of each one's image, and what they state where they say more than that."""

    prompts: tuple[str, ...]
    seeds: tuple[int, ...]
    captions: tuple[str, ...] = ()  # none: the prompts

    @property
    def stated(self) -> tuple[str, ...]:
        """The caption that stands in each prompt."""
        return self.captions or self.prompts

    def first(self, count: int) -> "SeededPrompts":
        """Return the first `count`."""
        return SeededPrompts(prompts=self.prompts[:count], seeds=self.seeds[:count], captions=self.captions[:count])

    def at(self, rows: np.ndarray) -> "SeededPrompts":
        """Return those of `rows`, int [m]."""
        return SeededPrompts(
            prompts=tuple(self.prompts[r] for r in rows),
            seeds=tuple(self.seeds[r] for r in rows),
            captions=tuple(self.captions[r] for r in rows) if self.captions else (),
        )

    def with_fresh_noise(self) -> "SeededPrompts":
        """The seeds with which a worker refines a draft of the same request."""
        return replace(self, seeds=tuple(refinement_seed(seed, STAGE) for seed in self.seeds))

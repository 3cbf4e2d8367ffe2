"""The observations of a stream of requests with images begun from earlier ones: plain arrays for the statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from planner.reuse.guard import Comparison, Verdict
from planner.reuse.steps import step_of

PASSES = (Verdict.EQUAL, Verdict.STYLE)
EXACT: Final = 0.99999  # the similarity of a prompt with itself, whatever the rounding of its vector


class Marks(NamedTuple):
    """The quality of the requests' images; nan where a request has none."""

    quality: np.ndarray  # [n] 1: all stated facts hold, 0: not all
    facts: np.ndarray  # [n] share of the stated facts that hold

    def at(self, rows: np.ndarray) -> "Marks":
        """Return the marks of some requests."""
        return Marks(self.quality[rows], self.facts[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbours:
    """For each of n requests in the order of time its nearest earlier one, and a random earlier one."""

    nearest: np.ndarray  # int [n]; -1: there is no earlier one
    similarity: np.ndarray  # [n] of the keys' vectors; nan where there is none
    comparisons: tuple[Comparison | None, ...]  # of the guard, with the nearest one
    is_exact: np.ndarray  # bool [n]: the nearest one's prompt is the same word for word
    unrelated: np.ndarray  # int [n]: of another prompt; -1: there is none

    @property
    def rows(self) -> np.ndarray:
        """int [m]: the requests that have an earlier one."""
        return np.flatnonzero(self.nearest >= 0)

    def known(self, at: int) -> Comparison:
        """Return how a request's facts compare with its nearest earlier one's. Raises ValueError where it has none."""
        compared = self.comparisons[at]
        if compared is None:
            raise ValueError(f"request {at} has no earlier one")
        return compared

    @property
    def unrelated_rows(self) -> np.ndarray:
        """int [m]: the requests that have an earlier one of another prompt."""
        return np.flatnonzero(self.unrelated >= 0)

    @property
    def passes(self) -> np.ndarray:
        """bool [n]: the guard finds equal facts, but for style."""
        return np.array([each is not None and each.verdict in PASSES for each in self.comparisons])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observed:
    """Images of n requests by where they began, on the same prompts and seeds."""

    steps: int  # N of the level
    prompts: tuple[str, ...]
    vectors: np.ndarray  # [n, d] of unit length, of the prompts
    neighbours: Neighbours
    noise: Marks  # K = 0
    nearest: Mapping[int, Marks]  # K -> begun from the nearest earlier one's latent
    unrelated: Mapping[int, Marks]  # K -> begun from another prompt's latent
    fewer: Mapping[int, Marks] = field(default_factory=dict)  # K -> from noise in N - K steps

    @property
    def count(self) -> int:
        """Number of requests."""
        return len(self.prompts)

    @property
    def starts(self) -> tuple[int, ...]:
        """The steps K that were measured, rising."""
        return tuple(sorted(self.nearest))

    @property
    def nearest_rows(self) -> np.ndarray:
        """int [m]: the requests that were begun from their nearest earlier one at every K."""
        return _known(self.nearest)

    @property
    def unrelated_rows(self) -> np.ndarray:
        """int [m]: the requests that were begun from an unrelated one at every K."""
        return _known(self.unrelated)

    def share(self, step: int) -> float:
        """Return K as a share of N."""
        return step / self.steps

    def begun(self, steps: Sequence[int] | np.ndarray) -> Marks:
        """Return the marks of all requests where each skips steps [n]; 0: from noise. Measured steps only.

        Raises ValueError for a request that was not begun at its step.
        """
        quality, facts = self.noise.quality.copy(), self.noise.facts.copy()
        for step in self.starts:
            rows = np.asarray(steps) == step
            quality[rows], facts[rows] = self.nearest[step].at(rows)
        if np.isnan(quality).any():
            raise ValueError(f"not begun at the step that they skip: requests {np.flatnonzero(np.isnan(quality))}")
        return Marks(quality, facts)

    def measured_step(self, share: float) -> int:
        """Return the largest measured K within a share of the steps; 0: none."""
        return max((step for step in self.starts if step <= step_of(share, self.steps)), default=0)


def _known(begun: Mapping[int, Marks]) -> np.ndarray:
    return np.flatnonzero(np.logical_and.reduce([~np.isnan(marks.quality) for marks in begun.values()]))

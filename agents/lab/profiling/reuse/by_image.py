"""The neighbour that MoDM begins from: the earlier image that fits a request's prompt best; and its quality.

MoDM (ASPLOS '26) looks stored images up by the cosine of prompt and image, and lets an image skip K steps from the
lowest similarity on at which quality is at least .95 of that from noise. Both are of the encoder that they were
measured with: its own floors (.25 to .3) are of CLIP, and mean nothing on another one's scale.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from agents.lab.profiling.reuse.floors import MIN_PAIRS, rising
from agents.lab.profiling.reuse.observed import Marks
from planner.catalog.reuse import Neighbours
from planner.reuse.guard import Compare, Comparison, Verdict
from planner.reuse.terms import Floor, Floors

MIN_QUALITY_SHARE: Final = 0.95  # of the quality from noise, at and above a floor. Source: MoDM
BANDS: Final = 12  # of similarity, each of as many requests
_DIGITS: Final = 1e5


class ByImage(NamedTuple):
    """For each of n requests in the order of time the earlier image that fits its prompt best."""

    nearest: np.ndarray  # int [n]; -1: there is no earlier one
    similarity: np.ndarray  # [n] cosine of prompt and image; nan where there is none

    @property
    def rows(self) -> np.ndarray:
        """int [m]: the requests that have an earlier one."""
        return np.flatnonzero(self.nearest >= 0)


def find_by_image(prompts: np.ndarray, images: np.ndarray) -> ByImage:
    """Find each request's best fitting earlier image by unit vectors [n, d]; of several alike the latest."""
    n = len(prompts)
    nearest, similarity = np.full(n, -1), np.full(n, np.nan)
    for at in range(1, n):
        fits = images[:at] @ prompts[at]
        nearest[at] = at - 1 - int(fits[::-1].argmax())
        similarity[at] = float(np.clip(fits[nearest[at]], -1.0, 1.0))
    return ByImage(nearest, similarity)


def image_neighbours(found: ByImage, prompts: tuple[str, ...], compare: Compare) -> tuple[Neighbours, ...]:
    """Return how many requests have an image in each band of similarity, and how the facts of its prompt compare."""
    bounds = _bounds(found.similarity[found.rows])
    band = np.searchsorted(bounds, found.similarity[found.rows], side="right") - 1
    rows: list[Neighbours] = []
    for number, low in enumerate(bounds):
        inside = found.rows[band == number]
        if len(inside):
            said = [_word(compare(prompts[at], prompts[found.nearest[at]])) for at in inside]
            shares = {word: said.count(word) / len(said) for word in sorted(set(said))}
            rows.append(Neighbours(float(low), round(len(inside) / len(prompts), 5), shares))
    return tuple(rows)


def image_floors(found: ByImage, noise: Marks, begun: Mapping[int, Marks], steps: int) -> Floors:
    """Return MoDM's floors: for each K the lowest similarity from which on images have MIN_QUALITY_SHARE of the quality
    from noise.

    `begun`: K -> marks [n] of the images that began from the best fitting one; nan where that was not generated. The
    highest similarity is tried first, down to the first that fails. As in MoDM these are no bounds, but estimates.
    """
    floors: list[Floor] = []
    for step, marks in sorted(begun.items()):
        known = ~np.isnan(marks.quality)
        lowest: float | None = None
        for similarity in _bounds(found.similarity[known])[::-1]:
            hits = known & (np.nan_to_num(found.similarity, nan=-2.0) >= similarity)
            if hits.sum() < MIN_PAIRS:
                continue
            if marks.quality[hits].mean() < MIN_QUALITY_SHARE * noise.quality[hits].mean():
                break
            lowest = float(similarity)
        if lowest is not None:
            floors.append(Floor(lowest, step / steps))
    return rising(floors)


def _bounds(similarity: np.ndarray) -> np.ndarray:
    """Rising lower ends of bands that hold as many requests each, rounded down."""
    if not len(similarity):
        return np.zeros(0)
    ends = np.quantile(similarity, np.linspace(0, 1, BANDS, endpoint=False))
    bounds: np.ndarray = np.unique(np.floor(ends * _DIGITS) / _DIGITS)
    return bounds


def _word(compared: Comparison) -> str:
    """A verdict in one word; of several differences the first by name, as no limit of a guard is known here."""
    if compared.verdict is not Verdict.DIFFERS:
        return str(compared.verdict)
    return min(str(kind) for kind in compared.differences)

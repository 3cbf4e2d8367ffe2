"""Draws the hardness, confidence and quality of simulated requests from the catalog's curves, by band.

Hardness is uniform, as it is a quantile. An image's confidence is the deferral curve's inverse at the request's own
number, so that a share f(t) of them lies below t; quality is what the profile measured at that confidence. Where a
catalog states a share of confidences that follow hardness, that share of the requests has its hardness as the number.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from planner.catalog.bands import bounds_of, cascade_table, level_quality
from planner.catalog.model import Catalog, Pair
from replay.simulation.draws.chance import uniform, uniform_of
from replay.simulation.draws.classes import sample_classes
from replay.simulation.draws.conditional import at_confidence, inverse, with_correlation
from replay.simulation.draws.repeats import Repeats
from replay.simulation.job import Draws

HARDNESS = "hardness"  # the salt of its numbers
CLASS = "class/"  # before a strategy's name, that of its classes'


class SyntheticOutcomes:
    """`source(first, count)` makes the draws of a stretch of requests."""

    def __init__(
        self, catalog: Catalog, seed: int, hardness: np.ndarray | None = None, repeats: Repeats | None = None
    ) -> None:
        """`hardness`: float64, one per request, or nan where it is drawn. `repeats`: None if no prompt is known."""
        self.catalog, self.seed, self._known, self._repeats = catalog, seed, hardness, repeats
        self.table = lru_cache(lambda pair: cascade_table(catalog, pair))

    def __call__(self, first: int, count: int) -> Draws:
        return self.chunk(first, count)

    def numbers(self, salt: str, first: int, count: int) -> np.ndarray:
        """Float64 [count] in [0, 1): hardness, or of a level the rank of each request's image by confidence."""
        if self._repeats is None:
            drawn = uniform(self.seed, salt, first, count)
        else:
            is_of_prompt = salt == HARDNESS or salt.startswith(CLASS)
            whose = self._repeats.prompt if is_of_prompt else self._repeats.image
            drawn = uniform_of(self.seed, salt, whose[first : first + count])
        if salt != HARDNESS or self._known is None:
            return drawn
        known = self._known[first : first + count]
        return np.where(np.isnan(known), drawn, known)

    def chunk(self, first: int, count: int) -> "SyntheticChunk":
        """The draws of the requests from `first` on."""
        return SyntheticChunk(self, first, count)

    def bands(self, hardness: np.ndarray) -> np.ndarray:
        """Int64 [n], the catalog's band of each."""
        return np.searchsorted(np.array(bounds_of(self.catalog)[1:-1]), hardness, side="right")

    def pair_of(self, level: str, discriminator: str) -> Pair | None:
        """A cascade whose discriminator judges this level's images."""
        pairs = (p for p in self.catalog.cascades if (p.light, p.discriminator) == (level, discriminator))
        return next(pairs, None)

    def pair_with(self, level: str) -> Pair | None:
        """A cascade that a level's images are known in: as its first level, else as its second."""
        pairs = self.catalog.cascades
        return next((p for p in pairs if p.light == level), None) or next((p for p in pairs if p.heavy == level), None)


class SyntheticChunk:
    """The draws of one stretch of requests."""

    def __init__(self, source: SyntheticOutcomes, first: int, count: int) -> None:
        self._source, self._first, self._count = source, first, count
        hardness = source.numbers(HARDNESS, first, count)
        self._band = source.bands(hardness)
        self.hardness: list[float] = hardness.tolist()
        self._confidences: dict[tuple[str, str], list[float]] = {}
        self._qualities: dict[tuple[str, int], list[float] | None] = {}
        self.classes = sample_classes(
            source.catalog, hardness, lambda strategy: source.numbers(f"{CLASS}{strategy}", first, count)
        )

    def confidence(self, level: str, discriminator: str) -> list[float]:
        """Return the confidences in the images that a level generates for each request."""
        key = level, discriminator
        if key not in self._confidences:
            self._confidences[key] = self._confidence(level, discriminator).tolist()
        return self._confidences[key]

    def _confidence(self, level: str, discriminator: str) -> np.ndarray:
        pair = self._source.pair_of(level, discriminator) or Pair(level, level, discriminator)
        table, own = self._source.table(pair), self._ranks(level, discriminator)
        return self._by_band(lambda band, mine: inverse(table, band, own[mine]))

    def _ranks(self, level: str, discriminator: str) -> np.ndarray:
        """Float64 [count] in [0, 1): the rank of each request's image by its confidence.

        Where bands of hardness were measured, theirs are the curves, and nothing is left to a correlation.
        """
        own, catalog = self._source.numbers(level, self._first, self._count), self._source.catalog
        known = catalog.discriminators.get(discriminator)
        if known is None or not known.hardness_correlation or catalog.measured is not None:
            return own
        dice = self._source.numbers(f"hardness of {level}", self._first, self._count)
        return with_correlation(own, np.array(self.hardness), dice, known.hardness_correlation)

    def quality(self, level: str, step: int) -> list[float] | None:
        """Return the quality of a level's image; None if unknown, or if the scale has none for single images."""
        key = level, step
        if key not in self._qualities:
            drawn = None if self._source.catalog.scale == "fid" else self._quality(level, step)
            self._qualities[key] = None if drawn is None else drawn.tolist()
        return self._qualities[key]

    def _quality(self, level: str, step: int) -> np.ndarray | None:
        bands = range(len(bounds_of(self._source.catalog)) - 1)
        means = [level_quality(self._source.catalog, level, band) for band in bands]
        pair = self._source.pair_with(level)
        if any(mean is None for mean in means):
            return None
        if pair is None:
            return np.asarray(np.array(means, dtype=np.float64)[self._band])
        table = self._source.table(pair._replace(refine_from_step=step if level == pair.heavy else 0))
        own = self._ranks(pair.light, pair.discriminator)
        whole = np.array(means, dtype=np.float64)
        return self._by_band(lambda band, mine: at_confidence(table, band, level, own[mine], whole[band]))

    def _by_band(self, of: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
        values = np.empty(self._count)
        for band in range(len(bounds_of(self._source.catalog)) - 1):
            mine = self._band == band
            values[mine] = of(band, mine)
        return values

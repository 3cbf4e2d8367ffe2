"""Draws of a live run in place of the simulator's own: the hardness and confidences that it showed, as ranks."""

from collections.abc import Mapping, Sequence

import numpy as np

from planner.catalog.model import Catalog, Pair
from replay.simulation.draws.conditional import inverse
from replay.simulation.draws.synthetic import SyntheticOutcomes
from replay.simulation.job import Draws

MODELS = "models"  # the strategy whose class a result carries
FINENESS = 2001  # places of a curve that are looked at to turn a confidence into its rank

Scored = Mapping[tuple[str, str], np.ndarray]
"""(level, discriminator) -> float64 [n] confidence of each request's image, nan where it was not scored."""


class Observed(SyntheticOutcomes):
    """Draws that agree with all that a live run showed; what it did not show is drawn at random."""

    def __init__(
        self, catalog: Catalog, seed: int, hardness: np.ndarray, scored: Scored, classes: Sequence[str | None]
    ) -> None:
        super().__init__(catalog, seed)
        self._hardness, self._scored, self._classes = hardness, scored, classes
        self._ranks: dict[str, np.ndarray] = {}

    def __call__(self, first: int, count: int) -> Draws:
        """Return the draws of a stretch of requests, with the classes that they were given live."""
        chunk = self.chunk(first, count)
        given = self._classes[first : first + count]
        chunk.classes = [
            each if model is None else {**each, MODELS: model} for each, model in zip(chunk.classes, given, strict=True)
        ]
        return chunk

    def numbers(self, salt: str, first: int, count: int) -> np.ndarray:
        """Return the numbers that the live run showed, else drawn ones."""
        if salt not in self._ranks:
            self._ranks[salt] = self._observed_values(salt)
        return self._ranks[salt][first : first + count]

    def _observed_values(self, salt: str) -> np.ndarray:
        count = len(self._hardness)
        drawn = super().numbers(salt, 0, count)
        if salt == "hardness":
            return np.where(np.isnan(self._hardness), drawn, self._hardness)
        for (level, discriminator), confidence in self._scored.items():
            if level == salt:
                ranks = self._ranks_of(level, discriminator, confidence)
                drawn = np.where(np.isnan(ranks), drawn, ranks)
        return drawn

    def _ranks_of(self, level: str, discriminator: str, confidence: np.ndarray) -> np.ndarray:
        """Return the ranks of confidences: the inverse of the curve by which confidences are drawn."""
        table = self.table(self.pair_of(level, discriminator) or Pair(level, level, discriminator))
        bands = self.bands(self.numbers("hardness", 0, len(confidence)))
        places, ranks = np.linspace(0, 1, FINENESS), np.full(len(confidence), np.nan)
        for band in np.unique(bands).tolist():
            mine = (bands == band) & ~np.isnan(confidence)
            curve = inverse(table, band, places)
            ranks[mine] = np.interp(confidence[mine], curve, places)
        return np.asarray(np.clip(ranks, 0, np.nextafter(1, 0)))


def columns(scores: Sequence[Mapping[tuple[str, str], float]]) -> Scored:
    """Turn one mapping per request into columns."""
    keys = sorted({key for each in scores for key in each})
    return {key: np.array([each.get(key, np.nan) for each in scores], dtype=np.float64) for key in keys}

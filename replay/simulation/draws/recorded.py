"""Simulated requests that are prompts of a profile: hardness, confidence and quality as they were measured together.

A request's prompt is drawn evenly; what was not recorded of it is drawn from the catalog's curves instead.
"""

import numpy as np

from planner.catalog.model import Catalog
from planner.catalog.prompt_table import PromptTable
from replay.simulation.draws.chance import uniform_of
from replay.simulation.draws.classes import with_labels
from replay.simulation.draws.repeats import Repeats
from replay.simulation.draws.synthetic import SyntheticChunk, SyntheticOutcomes
from replay.simulation.job import Draws


class Recorded:
    """`source(first, count)` makes the draws of a stretch of requests."""

    def __init__(self, catalog: Catalog, prompts: PromptTable, seed: int, repeats: Repeats | None = None) -> None:
        self.catalog, self.prompts, self.seed = catalog, prompts, seed
        self._drawn, self._repeats = SyntheticOutcomes(catalog, seed, repeats=repeats), repeats

    def __call__(self, first: int, count: int) -> Draws:
        numbers = np.arange(first, first + count)
        whose = numbers if self._repeats is None else self._repeats.prompt[numbers]
        rows = uniform_of(self.seed, "prompt", whose) * len(self.prompts.prompts)
        return RecordedChunk(self, rows.astype(np.int64), self._drawn.chunk(first, count))

    def changed_by(self, level: str, step: int) -> float:
        """Return the change of a level's mean quality by refining from a step; measured for the first cascade."""
        table = self.prompts
        if step == 0 or step not in table.over_k or level != self.catalog.pair().heavy:
            return 0.0
        over = table.over_quality[:, table.over_k.tolist().index(step)]
        return float(np.nanmean(over - table.of(level)[table.over_rows]))


class RecordedChunk:
    """The draws of one stretch of requests."""

    def __init__(self, source: Recorded, rows: np.ndarray, drawn: SyntheticChunk) -> None:
        self._source, self._rows, self._drawn = source, rows, drawn
        self.hardness: list[float] = source.prompts.hardness[rows].tolist()
        table = source.prompts
        labels = {strategy: table.classes[rows, at] for at, strategy in enumerate(table.strategies)}
        self.classes = with_labels(source.catalog, table.hardness[rows], labels)
        self._confidences: dict[tuple[str, str], list[float]] = {}
        self._qualities: dict[tuple[str, int], list[float] | None] = {}

    def confidence(self, level: str, discriminator: str) -> list[float]:
        """Return the confidences in the images that the level generated for each request's prompt."""
        key, table = (level, discriminator), self._source.prompts
        if key not in self._confidences:
            judged = [at for at, name in enumerate(table.judged) if name.startswith(f"{discriminator}: {level} > ")]
            recorded = table.confidence[self._rows, judged[0]].tolist() if judged else None
            self._confidences[key] = recorded or self._drawn.confidence(level, discriminator)
        return self._confidences[key]

    def quality(self, level: str, step: int) -> list[float] | None:
        """Quality of the image that the level generated for each request's prompt."""
        key = level, step
        if key not in self._qualities:
            self._qualities[key] = self._quality(level, step)
        return self._qualities[key]

    def _quality(self, level: str, step: int) -> list[float] | None:
        table = self._source.prompts
        if level not in table.levels:
            return self._drawn.quality(level, step)
        known = table.of(level)
        filled = np.where(np.isnan(known), np.nanmean(known), known)[self._rows]
        changed: list[float] = (filled + self._source.changed_by(level, step)).tolist()
        return changed

"""Judges generated images by a scorer, after they were generated: another scorer or standard generates nothing anew."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from agents.profiling.generation.orders import GeneratedImages, Order
from agents.profiling.generation.pool import GenerationPool, progress_bar
from agents.profiling.generation.quality import FACTS, Scorer, at_standard, identity, open_scorer


@dataclass(frozen=True, slots=True)
class Scoring:
    """How images are judged: by a scorer, and as good enough or not where there is a standard."""

    scorer: Scorer = ""  # "": as they were marked when they were generated
    standard: float | None = None  # quality is 1 from this score on, and 0 below it; None: quality is the score

    def check(self) -> None:
        """Open the scorer: what is wrong with it is said before hours are spent on images.

        Raises PochadeError.
        """
        if self.scorer not in ("", FACTS):
            open_scorer(self.scorer)

    @property
    def judges_refined(self) -> bool:
        """Whether it judges images that begin with another: labels are of images from noise alone."""
        return self.scorer in ("", FACTS) or not isinstance(self.scorer, str)

    def marked_by(self) -> str:
        """`Order.judged_by` of the images that it judges."""
        return FACTS if self.scorer == FACTS else ""

    def generate(
        self, pool: GenerationPool, orders: Mapping[str, Order], later_ms: float = 0.0
    ) -> dict[str, GeneratedImages]:
        """`GenerationPool.generate`, judged. Raises as it does, and PochadeError for a scorer that cannot be opened."""
        found = pool.generate(orders, later_ms)
        return {name: self._judged(name, images, orders[name]) for name, images in found.items()}

    def _judged(self, name: str, images: GeneratedImages, order: Order) -> GeneratedImages:
        quality = images.quality
        if self.scorer and self.scorer != FACTS:
            quality = self._scored(name, images, order)
        if self.standard is not None:
            quality = at_standard(quality, self.standard)
        return replace(images, quality=quality)

    def _scored(self, name: str, images: GeneratedImages, order: Order) -> np.ndarray:
        """The scores [n], kept beside each part."""
        who = identity(self.scorer)
        files = [file.with_name(f"{file.stem}.{who}.npy") for file in images.files]
        with progress_bar() as bar:
            task = bar.add_task(f"judging {name}", total=len(order.prompts))
            for part, file in zip(images.stored().parts(), files, strict=True):
                if not file.exists():
                    score = open_scorer(self.scorer)
                    np.save(file, score(order.variant.name, [order.prompts[row] for row in part.rows], part.read()))
                bar.advance(task, len(part))
        return np.concatenate([np.load(file) for file in files])

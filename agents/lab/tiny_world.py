"""The tiny world as the product's port has it (`agents/profiling/world.py`): prompts, and facts read from images."""

from collections.abc import Sequence

import numpy as np

from agents.lab.evaluation.generation.scope import fresh
from agents.lab.world import facts
from agents.lab.world.stream import stream_named
from agents.lab.world.styles import style_of
from agents.profiling.seeded_prompts import SeededPrompts
from agents.profiling.world import Marks
from agents.world.layout import SIZE
from planner.catalog.entries import Variant


class TinyWorld:
    """Captions of few things, in images of 48 x 48 px."""

    kinds = facts.KINDS

    def prompts(self, seed: int, count: int, stream: str) -> SeededPrompts:
        """Draw prompts for a profile. Raises Unknown for a stream that is none."""
        return fresh(seed, "profile", count, stream_named(stream))

    def reads(self, variant: Variant) -> bool:
        """Whether its images have the world's size."""
        return (variant.width, variant.height) == (SIZE, SIZE)

    def marks(self, variant: Variant, captions: Sequence[str], images: np.ndarray) -> Marks:
        """Check the stated facts of each image in the style of its model."""
        if images.shape[1:] != (SIZE, SIZE, 3):
            unknown = np.full(len(captions), np.nan)
            return Marks(unknown, unknown, np.zeros((len(captions), len(self.kinds)), bool))
        style = style_of(variant)
        reports = [facts.check(caption, image, style) for caption, image in zip(captions, images, strict=True)]
        return Marks(
            np.array([float(report.all_hold) if report.facts else np.nan for report in reports]),
            np.array([report.share for report in reports]),
            np.array([[kind in report.misses for kind in self.kinds] for report in reports]),
        )

    def holds(self, prompt: str, image: np.ndarray) -> bool | None:
        """Whether all facts hold, read in the plain style."""
        return facts.all_hold(prompt, image)


WORLD = TinyWorld()

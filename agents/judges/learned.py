"""Engine `learned`: a trained discriminator of any kind, as the config.json in its folder says."""

from collections.abc import Sequence

import numpy as np

from agents.judges import JudgeFailed
from planner.catalog.judges import Judge
from streams.shipped import INFRA


class LearnedJudge:
    """Its scores are confidences, by the calibration in its folder."""

    def __init__(self, judge: Judge) -> None:
        """Load it. Raises JudgeFailed, PochadeError."""
        from agents.models.discriminator import Discriminator
        from agents.models.threads import judge_on_one

        folder = INFRA / judge.folder
        if not folder.is_dir():
            raise JudgeFailed(f"judge {judge.name!r}: folder {folder} does not exist: train it or fix the catalog")
        judge_on_one()
        self._model = Discriminator.load(folder)

    def score(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
        """Return the confidence in [0, 1] for each pair."""
        return self._model.score(images, prompts)


load = LearnedJudge

"""Safety checkers: the probability that an image shows what a deployment must not show, from the image alone.

The one that ships knows a motif of the tiny world, so that the way of an unsafe image can be tried from end to end; a
folder of the same form, trained on other images, takes its place (`safety.checker`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch

from agents.models.judges.embedding import Embedding
from agents.models.saved import Saved

KIND: Final = "embedding"


class SafetyChecker:
    """Judges images as a folder's config.json says."""

    def __init__(self, model: Embedding, config: Mapping[str, Any]) -> None:
        self._model = model
        self.motif: str = config["motif"]
        self.threshold: float = config["threshold"]  # score from which on an image is taken to show the motif

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder such as infra/models/safety/mushroom.

        Raises:
            PochadeError: a file that is not there.
            Unknown: a kind that is not known.
        """
        saved = Saved.load(folder)
        saved.kind([KIND], "safety checker")
        return cls(Embedding.load(saved), saved.config)

    @torch.inference_mode()
    def score(self, images: Sequence[np.ndarray]) -> list[float]:
        """Return the probability in [0, 1] that each image, uint8 [h, w, 3] of any size, shows the motif."""
        return [float(p) for p in torch.sigmoid(self._model.logits(images, ()))] if images else []

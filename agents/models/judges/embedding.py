"""The image alone, by the scorer's frozen image tower and a trained head on its embedding.

Source: HADIS 3.3 (frozen CLIP, MLP on the visual embedding; real images against those of the candidate models). We
differ in the backbone, a CLIP of this world, and in that the confidence is calibrated.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from agents.models.saved import Saved
from agents.models.scorer import IMAGE_PART, WIDTH, ImageTower
from agents.models.trunk import as_input


class Head(nn.Module):
    """Embeddings [n, 96] as the tower gives them -> logits of "real" [n]."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 128), nn.SiLU(), nn.Dropout(0.1), nn.Linear(128, 1)
        )

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(embeddings).squeeze(-1)
        return logits


class Embedding:
    """A discriminator's model that sees the image only."""

    def __init__(self, tower: ImageTower, head: Head) -> None:
        self.tower, self.head = tower.eval(), head.eval()

    @classmethod
    def load(cls, saved: Saved) -> Self:
        return cls(saved.into(IMAGE_PART, ImageTower()), saved.into("head", Head()))

    def parts(self) -> Mapping[str, nn.Module]:
        """Return the parts to save for `load`; the tower is copied, so that the folder stands alone."""
        return {IMAGE_PART: self.tower, "head": self.head}

    def config(self) -> dict[str, Any]:
        return {}

    @torch.no_grad()
    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:  # noqa: ARG002  by design
        """[n], above 0 for what seems real."""
        logits: torch.Tensor = self.head(self.tower(as_input(images)))
        return logits

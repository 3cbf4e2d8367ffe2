"""The first convolutional layers of the scorer and of the discriminators, and the conversion of images to input."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from PIL import Image
from torch import nn

from agents.world.layout import SIZE

CHANNELS: Final = 96
SIDE: Final = SIZE // 4  # places in a row of what the trunk gives


class Trunk(nn.Sequential):
    """Four convolutions, about 170,000 parameters: images [n, 3, 48, 48] in -1..1 -> [n, 96, 12, 12]."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(3, 48, 4, stride=2, padding=1),
            nn.GroupNorm(8, 48),
            nn.SiLU(),
            nn.Conv2d(48, 64, 3, padding=1),
            nn.GroupNorm(8, 64),
            nn.SiLU(),
            nn.Conv2d(64, CHANNELS, 3, stride=2, padding=1),
            nn.GroupNorm(8, CHANNELS),
            nn.SiLU(),
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
            nn.GroupNorm(8, CHANNELS),
            nn.SiLU(),
        )


def as_input(images: Sequence[np.ndarray]) -> torch.Tensor:
    """uint8 images of any size, [h, w, 3] -> float [n, 3, 48, 48] in -1..1."""
    small = [p if p.shape[:2] == (SIZE, SIZE) else _resized(p) for p in images]
    return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2).float() / 127.5 - 1


def _resized(image: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(image).resize((SIZE, SIZE), Image.Resampling.BOX))

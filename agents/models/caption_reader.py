"""Reads what a prompt asks for, slot by slot: a small head on the text encoder's states; also for discriminators."""

from typing import Final, NamedTuple

import torch
from torch import nn

from agents.world.layout import SLOTS
from agents.world.words import BACKGROUND_RGB, COLOURS, SHAPES, SIZES

SLOT_NAMES: Final = SLOTS
NOTHING: Final = 0  # label of an empty slot; everything else counts from 1

SLOT_FEATURES: Final = (len(SHAPES) + 1) + (2 * len(COLOURS) + 1) + (len(SIZES) + 2)
SCENE_FEATURES: Final = len(BACKGROUND_RGB) + len(SHAPES) + 1


class Asked(NamedTuple):
    """Logits of what is asked for."""

    shape: torch.Tensor  # [n, 19, 21]
    colour: torch.Tensor  # [n, 19, 21]: none, the ten colours, the ten that are ruled out
    size: torch.Tensor  # [n, 19, 4]
    background: torch.Tensor  # [n, 6]
    absent: torch.Tensor  # [n, 21]: none, or the shape that must not be seen

    def features(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Probabilities: slots [n, 19, 46] and the scene as a whole [n, 27]."""
        slots = [part.softmax(-1) for part in (self.shape, self.colour, self.size)]
        return torch.cat(slots, -1), torch.cat([self.background.softmax(-1), self.absent.softmax(-1)], -1)


class CaptionReader(nn.Module):
    """A head in which one query per slot and one for the scene cross-attend to the tokens."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(len(SLOT_NAMES) + 1, width) * 0.02)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mix = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.shape = nn.Linear(width, len(SHAPES) + 1)
        self.colour = nn.Linear(width, 2 * len(COLOURS) + 1)
        self.size = nn.Linear(width, len(SIZES) + 2)
        self.background = nn.Linear(width, len(BACKGROUND_RGB))
        self.absent = nn.Linear(width, len(SHAPES) + 1)

    def forward(self, states: torch.Tensor) -> Asked:
        """Token states [n, tokens, width] -> what is asked for."""
        queries = self.queries.expand(len(states), -1, -1)
        read, _ = self.attention(queries, states, states, need_weights=False)
        read = self.mix(read + queries)
        slots, scene = read[:, :-1], read[:, -1]
        return Asked(
            self.shape(slots), self.colour(slots), self.size(slots), self.background(scene), self.absent(scene)
        )

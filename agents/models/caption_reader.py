"""What a prompt asks for, slot by slot: a small head on the text encoder's states. The discriminator uses it too."""

from typing import Final

import torch
from torch import nn

from agents.models.layout import SLOTS
from agents.models.words import BACKGROUND_RGB, COLOURS, SHAPES

SLOT_NAMES: Final = tuple(SLOTS)
NONE: Final = 0  # label of an empty slot; shapes and colours count from 1
SHAPE_LABELS: Final = {name: number for number, name in enumerate(SHAPES, start=1)}
COLOUR_LABELS: Final = {name: number for number, name in enumerate(COLOURS, start=1)}
BACKGROUND_LABELS: Final = {name: number for number, name in enumerate(BACKGROUND_RGB)}  # 0 is plain


class CaptionReader(nn.Module):
    """Ten queries (nine slots and the background) cross-attend to the tokens."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(len(SLOT_NAMES) + 1, width) * 0.02)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mix = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.shape = nn.Linear(width, len(SHAPES) + 1)
        self.colour = nn.Linear(width, len(COLOURS) + 1)
        self.background = nn.Linear(width, len(BACKGROUND_RGB))

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Token states [n, tokens, width] -> logits of shape [n, 9, 15], colour [n, 9, 9], background [n, 6]."""
        queries = self.queries.expand(len(states), -1, -1)
        read, _ = self.attention(queries, states, states, need_weights=False)
        read = self.mix(read + queries)
        return self.shape(read[:, :-1]), self.colour(read[:, :-1]), self.background(read[:, -1])

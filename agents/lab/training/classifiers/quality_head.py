"""The network that learns the quality of each level's image of a prompt; `agents.models.predictor` computes it."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from agents.models.caption_reader import SCENE_FEATURES, SLOT_FEATURES, SLOT_NAMES, CaptionReader
from agents.models.predictor import HEADS, STATES, WIDTH, shortened
from agents.models.prompt_encoder import PromptEncoder


class Read(NamedTuple):
    """The output of the frozen text encoder on n prompts."""

    slots: torch.Tensor  # [n, 19, 46] probabilities of what is asked for in each slot; the first: nothing
    scene: torch.Tensor  # [n, 27] of the background and of what must not be seen
    mean: torch.Tensor  # [n, 128] of the token states


class Logits(NamedTuple):
    """The logits of the head; sigmoid turns them into shares and probabilities."""

    quality: torch.Tensor  # [n, k] probability that all facts will hold, or the score of a CLIP
    facts: torch.Tensor  # [n, k] share of the facts that will hold: taught beside quality, which it helps to learn
    inside: torch.Tensor  # [n] probability that the prompt states facts of this world


class TextSide(nn.Module):
    """The family's frozen text encoder, and the reader whose queries pool its states by attention, one a slot."""

    def __init__(self, encoder: PromptEncoder, reader: CaptionReader) -> None:
        super().__init__()
        self.encoder, self.reader = encoder, reader

    @torch.no_grad()
    def forward(self, prompts: Sequence[str]) -> Read:
        """Predictions for one or more prompts of any text: broken surrogates are read as question marks."""
        states = self.encoder(shortened(prompts))
        slots, scene = self.reader(states).features()
        return Read(slots, scene, states.mean(1))


class QualityHead(nn.Module):
    """A head of one transformer layer over the things asked for and the scene, then a sum over the things present."""

    def __init__(self, levels: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.levels = levels
        self.thing, self.scene = nn.Linear(SLOT_FEATURES, WIDTH), nn.Linear(SCENE_FEATURES, WIDTH)
        self.place = nn.Parameter(torch.randn(len(SLOT_NAMES), WIDTH) * 0.3)
        self.mean = nn.Sequential(nn.LayerNorm(STATES), nn.Dropout(dropout), nn.Linear(STATES, WIDTH))
        self.mix = nn.Sequential(nn.GELU(), nn.Dropout(dropout), nn.Linear(WIDTH, WIDTH), nn.GELU())
        self.layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 2 * WIDTH, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.out = nn.Sequential(
            nn.Linear(2 * WIDTH, WIDTH), nn.GELU(), nn.Dropout(dropout), nn.Linear(WIDTH, 2 * levels)
        )
        self.inside = nn.Sequential(nn.LayerNorm(STATES), nn.Linear(STATES, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, read: Read) -> Logits:
        there = 1 - read.slots[..., 0]
        things = self.mix(self.thing(read.slots) + self.place)
        scene = self.mix(self.scene(read.scene) + self.mean(read.mean))
        empty = torch.cat([there < 0.5, torch.zeros_like(there[:, :1], dtype=torch.bool)], 1)
        mixed = self.layer(torch.cat([things, scene[:, None]], 1), src_key_padding_mask=empty)
        out = self.out(torch.cat([(mixed[:, :-1] * there[..., None]).sum(1), mixed[:, -1]], -1))
        return Logits(out[:, : self.levels], out[:, self.levels :], self.inside(read.mean).squeeze(-1))

"""Predicts the quality of each level's image of a prompt, from the prompt alone.

It imports neither diffusers nor transformers, so a role that only classifies starts fast.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import torch
from torch import nn

from agents.models.caption_reader import SCENE_FEATURES, SLOT_FEATURES, SLOT_NAMES, CaptionReader
from agents.models.prompt_encoder import PromptEncoder
from agents.models.saved import Saved

_WIDTH: Final = 64
_STATES: Final = 128  # width of the text tower's
_LONGEST: Final = 1000  # characters; the 48 tokens that count are in the first few hundred


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
        states = self.encoder([p[:_LONGEST].encode("utf-8", "replace").decode("utf-8") for p in prompts])
        slots, scene = self.reader(states).features()
        return Read(slots, scene, states.mean(1))


class QualityHead(nn.Module):
    """A head of one transformer layer over the things asked for and the scene, then a sum over the things present."""

    def __init__(self, levels: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.levels = levels
        self.thing, self.scene = nn.Linear(SLOT_FEATURES, _WIDTH), nn.Linear(SCENE_FEATURES, _WIDTH)
        self.place = nn.Parameter(torch.randn(len(SLOT_NAMES), _WIDTH) * 0.3)
        self.mean = nn.Sequential(nn.LayerNorm(_STATES), nn.Dropout(dropout), nn.Linear(_STATES, _WIDTH))
        self.mix = nn.Sequential(nn.GELU(), nn.Dropout(dropout), nn.Linear(_WIDTH, _WIDTH), nn.GELU())
        self.layer = nn.TransformerEncoderLayer(
            _WIDTH, 4, 2 * _WIDTH, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.out = nn.Sequential(
            nn.Linear(2 * _WIDTH, _WIDTH), nn.GELU(), nn.Dropout(dropout), nn.Linear(_WIDTH, 2 * levels)
        )
        self.inside = nn.Sequential(nn.LayerNorm(_STATES), nn.Linear(_STATES, 32), nn.GELU(), nn.Linear(32, 1))

    def forward(self, read: Read) -> Logits:
        there = 1 - read.slots[..., 0]
        things = self.mix(self.thing(read.slots) + self.place)
        scene = self.mix(self.scene(read.scene) + self.mean(read.mean))
        empty = torch.cat([there < 0.5, torch.zeros_like(there[:, :1], dtype=torch.bool)], 1)
        mixed = self.layer(torch.cat([things, scene[:, None]], 1), src_key_padding_mask=empty)
        out = self.out(torch.cat([(mixed[:, :-1] * there[..., None]).sum(1), mixed[:, -1]], -1))
        return Logits(out[:, : self.levels], out[:, self.levels :], self.inside(read.mean).squeeze(-1))


class Predictions(NamedTuple):
    """Predictions for n prompts on k levels."""

    quality: np.ndarray  # [n, k] expected quality: the probability that all stated facts hold
    inside: np.ndarray  # [n] probability that the prompt states facts of this world


class Predictor:
    """Predicts every level's quality; a prompt that states no facts of this world is taken for an average one."""

    def __init__(self, text: TextSide, head: QualityHead, config: Mapping[str, Any]) -> None:
        """Reads of the config: `levels`, the fastest first; `average`, the mean quality of the taught prompts, [k]."""
        self.levels: tuple[str, ...] = tuple(config["levels"])
        self._text, self._head = text.eval(), head.eval()
        self._average = torch.tensor(config["average"])

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read config.json, tokenizer.json and model.safetensors of a folder in infra/models/classifiers."""
        saved = Saved.load(folder)
        text = TextSide(PromptEncoder.load(saved), saved.into("reader", CaptionReader()))
        return cls(text, saved.into("head", QualityHead(len(saved.config["levels"]))), saved.config)

    @torch.inference_mode()
    def predict(self, prompts: Sequence[str]) -> Predictions:
        """Predict for one prompt or more, of any text."""
        logits = self._head(self._text(prompts))
        inside = torch.sigmoid(logits.inside)
        quality = torch.lerp(self._average, torch.sigmoid(logits.quality.float()), inside[:, None])
        return Predictions(quality.numpy(), inside.numpy())

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Predicted quality of each prompt as {level: value}."""
        return [dict(zip(self.levels, row, strict=True)) for row in self.predict(prompts).quality.tolist()]

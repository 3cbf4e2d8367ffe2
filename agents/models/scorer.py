"""The scorer: a small CLIP of this world. How well does an image fit a prompt, and how similar are two prompts?

Used in place of CLIPScore and PickScore. The vector store compares its prompt embeddings; FID is computed on its image
features. It imports neither diffusers nor transformers.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from agents.models.prompt_encoder import PromptEncoder
from agents.models.saved import Saved
from agents.models.trunk import CHANNELS, SIDE, Trunk, as_input

WIDTH: Final = 96  # of every embedding
IMAGE_PART: Final = "picture"  # name of the image tower in saved models
_STATE = 128  # width of the text encoder
_QUERIES = 8  # ways in which the text tower pools over the tokens
_THIN = 32
_CHUNK = 256  # images or prompts at a time


class ImageTower(nn.Module):
    """A CNN of about 0.37 M parameters: images [n, 3, 48, 48] in -1..1 -> [n, 96], not of unit length."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk()
        self.narrow = nn.Sequential(
            nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1),
            nn.GroupNorm(8, CHANNELS),
            nn.SiLU(),
            nn.Conv2d(CHANNELS, _THIN, 1),
            nn.SiLU(),
            nn.Flatten(),  # where a thing stands is a fact too, so there is no pooling
        )
        self.project = nn.Linear(_THIN * (SIDE // 2) ** 2, WIDTH)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.project(self.narrow(self.trunk(images)))
        return out


class PromptTower(nn.Module):
    """Token states [n, tokens, 128] of the frozen encoder -> [n, 96], pooled by eight learned looks at the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = nn.Parameter(torch.randn(_QUERIES, _STATE) * 0.02)
        self.attention = nn.MultiheadAttention(_STATE, 4, batch_first=True)
        self.project = nn.Sequential(
            nn.LayerNorm(_QUERIES * _STATE),
            nn.Linear(_QUERIES * _STATE, 2 * WIDTH),
            nn.GELU(),
            nn.Linear(2 * WIDTH, WIDTH),
        )

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        looks = self.looks.expand(len(states), -1, -1)
        pooled, _ = self.attention(looks, states, states, need_weights=False)
        out: torch.Tensor = self.project(pooled.flatten(1))
        return out


class Scorer:
    """Embeds images and prompts into one space."""

    def __init__(self, encoder: PromptEncoder, prompt: PromptTower, image: ImageTower) -> None:
        self.encoder, self.prompt, self.image = encoder.eval(), prompt.eval(), image.eval()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder such as infra/models/scorer. Raises PochadeError for a file that is not there."""
        saved = Saved.load(folder)
        encoder = PromptEncoder.load(saved)
        return cls(encoder, saved.into("prompt", PromptTower()), saved.into(IMAGE_PART, ImageTower()))

    def parts(self) -> Mapping[str, nn.Module]:
        """Return the parts to save for `load`, beside the tokenizer."""
        return {"tower": self.encoder.tower, "prompt": self.prompt, IMAGE_PART: self.image}

    @torch.inference_mode()
    def embed_prompts(self, prompts: Sequence[str]) -> np.ndarray:
        """Return float32 [n, 96] of unit length, for any text; prompts for similar images lie close together."""
        return _unit([self.prompt(self.encoder(prompts[part])) for part in _chunks(len(prompts))])

    @torch.inference_mode()
    def embed_images(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """float32 [n, 96] of unit length; images are uint8 [h, w, 3] of any size."""
        return _unit([torch.from_numpy(self.features(images))])

    @torch.inference_mode()
    def features(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Return float32 [n, 96], not of unit length: the features of FID."""
        parts = [self.image(as_input(images[part])) for part in _chunks(len(images))]
        return torch.cat([torch.zeros(0, WIDTH), *parts]).numpy()

    def score(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> np.ndarray:
        """Return float32 [n] in -1..1: the cosine of each image and its prompt, as in CLIPScore (Hessel et al. 2021).

        Raises ValueError unless there is one prompt for each image.
        """
        if len(images) != len(prompts):
            raise ValueError(f"one prompt for each image: got {len(images)} images, {len(prompts)} prompts")
        return np.asarray((self.embed_images(images) * self.embed_prompts(prompts)).sum(1))


def _chunks(count: int) -> list[slice]:
    return [slice(at, at + _CHUNK) for at in range(0, count, _CHUNK)]


def _unit(parts: list[torch.Tensor]) -> np.ndarray:
    return functional.normalize(torch.cat([torch.zeros(0, WIDTH), *parts]), dim=-1).numpy()

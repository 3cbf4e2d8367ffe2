"""A frozen encoder and a trained head on what it gives: of the image alone, or of image and prompt.

Source: HADIS 3.3 (frozen CLIP, MLP on the visual embedding; real images against those of the candidate models). The
encoder is any CLIP or vision backbone of transformers' format, timm's among them, by folder or hub id; the shipped one
is the scorer's image tower, a CLIP of this world. We differ in that the confidence is calibrated.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from agents.models.saved import Saved
from agents.models.scorer import IMAGE_PART, WIDTH, ImageTower
from agents.models.trunk import as_input
from schemas.errors import PochadeError

HIDDEN: Final = 128


class Head(nn.Module):
    """Embeddings [n, width] -> logits [n]; the shipped tower's are normed first."""

    def __init__(self, width: int = WIDTH, *, normed: bool = True, dropout: float = 0.1) -> None:
        super().__init__()
        first = [nn.LayerNorm(width)] if normed else []
        self.layers = nn.Sequential(
            *first, nn.Linear(width, HIDDEN), nn.SiLU(), nn.Dropout(dropout), nn.Linear(HIDDEN, 1)
        )

    def forward(self, embeddings: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(embeddings).squeeze(-1)
        return logits


class Pretrained:
    """A frozen encoder of transformers' format, referred to by its name."""

    def __init__(self, named: str, *, with_prompt: bool = False, device: str = "cpu") -> None:
        """`named`: a folder or OWNER/NAME@REVISION; only safetensors are read.

        Raises PochadeError: prompts for an encoder that reads none.
        """
        from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

        from agents.models.pretrained import place_of

        place = place_of(named)
        self.named, self.with_prompt = named, with_prompt
        self._model = AutoModel.from_pretrained(**place.files).eval().to(device)
        self._is_clip = hasattr(self._model, "get_text_features")
        if with_prompt and not self._is_clip:
            kind = type(self._model).__name__
            raise PochadeError(f"encoder {named!r} is a {kind}, which reads no prompts: name a CLIP, or leave them out")
        self._processor = AutoImageProcessor.from_pretrained(**place.words)
        self._tokenizer = AutoTokenizer.from_pretrained(**place.words) if with_prompt else None

    @torch.no_grad()
    def __call__(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:
        """Return features [n, width], about 1 in size: of the image, or of image, prompt and their product."""
        pixels = self._processor(list(images), return_tensors="pt").to(self._model.device)
        if not self._is_clip:
            return _pooled(self._model(**pixels))
        seen = functional.normalize(_pooled(self._model.get_image_features(**pixels)), dim=-1)
        size = seen.shape[1] ** 0.5
        if self._tokenizer is None:
            return seen.mul(size)
        length = self._model.config.text_config.max_position_embeddings
        words = self._tokenizer(list(prompts), return_tensors="pt", padding=True, truncation=True, max_length=length)
        asked = _pooled(self._model.get_text_features(**words.to(self._model.device)))
        asked = functional.normalize(asked, dim=-1)
        features: torch.Tensor = torch.cat([seen, asked, seen * asked * size], -1) * size
        return features


def _pooled(out: Any) -> torch.Tensor:
    """[n, d] of what a model of transformers gives."""
    if not isinstance(out, torch.Tensor):
        pooled = getattr(out, "pooler_output", None)
        out = out.last_hidden_state.mean(1) if pooled is None else pooled
    features: torch.Tensor = out.flatten(1).float()
    return features


class Embedding:
    """A discriminator's model that learns a head only."""

    kind: Final = "embedding"

    def __init__(self, encoder: ImageTower | Pretrained, head: Head) -> None:
        self.encoder, self.head = encoder.eval() if isinstance(encoder, ImageTower) else encoder, head.eval()

    @classmethod
    def load(cls, saved: Saved) -> Self:
        if named := saved.config.get("encoder"):
            width = saved.weights["head.layers.0.weight"].shape[1]
            encoder = Pretrained(named, with_prompt=saved.config["with_prompt"])
            return cls(encoder, saved.into("head", Head(width, normed=False)))
        return cls(saved.into(IMAGE_PART, ImageTower()), saved.into("head", Head()))

    def parts(self) -> Mapping[str, nn.Module]:
        """Return the parts to save for `load`; the shipped tower is copied, so that the folder stands alone."""
        own = {IMAGE_PART: self.encoder} if isinstance(self.encoder, ImageTower) else {}
        return {**own, "head": self.head}

    def config(self) -> dict[str, Any]:
        if isinstance(self.encoder, ImageTower):
            return {}
        return {"encoder": self.encoder.named, "with_prompt": self.encoder.with_prompt}

    @torch.no_grad()
    def features(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:
        """Return what the head judges by, [n, width] on the CPU."""
        if isinstance(self.encoder, ImageTower):
            tower: torch.Tensor = self.encoder(as_input(images))
            return tower
        return self.encoder(images, prompts).cpu()

    @torch.no_grad()
    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:
        """[n], above 0 for what seems right, or real."""
        logits: torch.Tensor = self.head(self.features(images, prompts))
        return logits

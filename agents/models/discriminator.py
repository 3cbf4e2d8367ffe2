"""Discriminators: how likely is an image good enough for its prompt, so that no dearer level need generate it again?

Each kind judges images in its own way (`agents/models/judges/`). This module calibrates their logits to confidences, so
that a threshold means the same for all kinds. None imports diffusers, and transformers only where an encoder or a
network of its format is named: a role that only judges starts fast.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, Self

import numpy as np
import torch

from agents.models.judges import embedding, network, pixels, prompt_aware
from agents.models.saved import Saved


class ImageCheck(Protocol):
    """Protocol of a discriminator's model: images and prompts to logits."""

    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:
        """[n], higher where an image is better; images are uint8 [h, w, 3] of any size, n >= 1."""


KINDS: Final[Mapping[str, Callable[[Saved], ImageCheck]]] = {
    "look": prompt_aware.PromptAware.load,  # image and prompt: does the image show what the prompt states?
    "pixels": pixels.Pixels.load,  # image and prompt, from scratch: for anybody's models
    "network": network.Whole.load,  # the image alone, by a backbone trained as a whole: DiffServe 3.2
    "embedding": embedding.Embedding.load,  # a head on a frozen encoder: HADIS 3.3
}


class Discriminator:
    """Judges images as a folder's config.json says."""

    def __init__(self, examiner: ImageCheck, config: Mapping[str, Any]) -> None:
        self._examiner = examiner
        self._scale, self._shift = float(config["scale"]), float(config["shift"])
        self.name: str = config["name"]
        self.kind: str = config["kind"]
        self.threshold: float = config["threshold"]  # confidence below which to escalate; recommended, by share

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder such as infra/models/discriminators/prompt_aware.

        Raises:
            PochadeError: a file that is not there.
            Unknown: a kind that is not known.
        """
        saved = Saved.load(folder)
        return cls(KINDS[saved.kind(KINDS, "discriminator")](saved), saved.config)

    @torch.inference_mode()
    def score(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
        """Return the confidence in [0, 1] for each pair: the probability that all facts the prompt states are right.

        Images are uint8 [h, w, 3] of any size. All kinds are calibrated on held-out images of the light variant, also
        those that read no prompt; an uninformative kind stays near the share of right images.
        """
        if len(images) != len(prompts):
            raise ValueError(f"one prompt for each image: got {len(images)} images, {len(prompts)} prompts")
        if not images:
            return []
        return [float(p) for p in self.confidence(self._examiner.logits(images, prompts))]

    def confidence(self, logits: torch.Tensor) -> torch.Tensor:
        """Turn logits [n] of the examiner into probabilities [n]."""
        return torch.sigmoid(logits * self._scale + self._shift)

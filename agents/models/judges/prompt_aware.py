"""Image and prompt: holds what each slot shows against what the prompt asks for there. Ours.

The prompt is read by the family's frozen text encoder, the image by a small CNN.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
import torch
from torch import nn

from agents.models.caption_reader import SCENE_FEATURES, SLOT_FEATURES, SLOT_NAMES, Asked, CaptionReader
from agents.models.prompt_encoder import PromptEncoder
from agents.models.saved import Saved
from agents.models.trunk import CHANNELS, SIDE, Trunk, as_input
from agents.world.words import BACKGROUND_RGB, COLOURS, SHAPES, SIZES

QUERIES: Final = len(SLOT_NAMES) + 1  # the slots, then the scene as a whole
SHOWN: Final = {"shape": len(SHAPES) + 1, "colour": len(COLOURS) + 1, "size": len(SIZES) + 2}  # what a slot can show


class ImageReader(nn.Module):
    """A small CNN; one query a slot reads what stands there, and one more the scene as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.features = Trunk()
        places = SIDE**2
        # where each query looks: one fixed, learned map per query and quarter of the channels
        self.gaze = nn.Parameter(torch.randn(4, QUERIES, places) * 0.02)
        # what stands at each place of a slot matters (a mast, a door), so every place has its own weights
        self.place = nn.Parameter(torch.ones(places, CHANNELS) + torch.randn(places, CHANNELS) * 0.3)
        self.mix = nn.Sequential(nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, CHANNELS), nn.SiLU())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Images [n, 3, 48, 48] in -1..1 -> [n, 20, 96]: nineteen slots, then the scene."""
        flat = self.features(images).flatten(2).transpose(1, 2) * self.place
        groups = flat.unflatten(-1, (4, -1)).permute(0, 2, 1, 3)
        read = (self.gaze.softmax(-1) @ groups).transpose(1, 2).flatten(2)
        out: torch.Tensor = self.mix(read)
        return out


class Judge(nn.Module):
    """Sums the doubts of all slots up to one logit."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = ImageReader()
        self.asked = nn.Linear(SLOT_FEATURES, CHANNELS)
        self.asked_scene = nn.Linear(SCENE_FEATURES, CHANNELS)
        self.compare = nn.Sequential(nn.Linear(3 * CHANNELS, 64), nn.SiLU(), nn.Linear(64, 16))
        self.head = nn.Sequential(nn.Linear(16 * QUERIES, 64), nn.SiLU(), nn.Linear(64, 1))
        # these only help training: what does the image show?
        self.shown = nn.ModuleDict({name: nn.Linear(CHANNELS, kinds) for name, kinds in SHOWN.items()})
        self.background = nn.Linear(CHANNELS, len(BACKGROUND_RGB))

    def forward(self, seen: torch.Tensor, slots: torch.Tensor, scene: torch.Tensor) -> torch.Tensor:
        """Compare the image reader's output [n, 20, 96] with asked slots [n, 19, 46] and scene [n, 27]: logits [n]."""
        asked = torch.cat([self.asked(slots), self.asked_scene(scene)[:, None]], 1)
        doubts = self.compare(torch.cat([seen, asked, seen * asked], -1))
        logits: torch.Tensor = self.head(doubts.flatten(1)).squeeze(-1)
        return logits


class PromptAware:
    """A discriminator's model that compares the image with the prompt."""

    kind: Final = "look"

    def __init__(self, encoder: PromptEncoder, reader: CaptionReader, judge: Judge) -> None:
        self.encoder, self.reader, self.judge = encoder.eval(), reader.eval(), judge.eval()

    @classmethod
    def load(cls, saved: Saved) -> Self:
        encoder = PromptEncoder.load(saved)
        return cls(encoder, saved.into("reader", CaptionReader()), saved.into("judge", Judge()))

    def parts(self) -> Mapping[str, nn.Module]:
        """Return the parts to save for `load`, beside the tokenizer."""
        return {"tower": self.encoder.tower, "reader": self.reader, "judge": self.judge}

    def config(self) -> dict[str, Any]:
        return self.encoder.config

    @torch.no_grad()
    def asked(self, prompts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the prompts ask for as probabilities: slots [n, 19, 46] and scene [n, 27]."""
        asked: Asked = self.reader(self.encoder(prompts))
        return asked.features()

    @torch.no_grad()
    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:
        """[n], above 0 where all stated facts seem right.

        For a prompt outside the grammar it is how clearly the image shows things of this world, and whether they are
        those the prompt happens to name.
        """
        logits: torch.Tensor = self.judge(self.judge.picture(as_input(images)), *self.asked(prompts))
        return logits

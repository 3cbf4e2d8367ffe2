"""The discriminator: how likely is it that a picture shows everything its prompt states?

It imports neither diffusers nor transformers, so a role that only judges starts fast.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn

from agents.models.caption_reader import SLOT_NAMES, CaptionReader
from agents.models.layout import SIZE
from agents.models.text_tower import TextTower, token_ids
from agents.models.words import BACKGROUND_RGB, COLOURS, SHAPES

_SHAPES: Final = len(SHAPES) + 1
_COLOURS: Final = len(COLOURS) + 1
_ASKED: Final = _SHAPES + _COLOURS  # probabilities the prompt gives for one slot
_CHANNELS: Final = 96


class PictureReader(nn.Module):
    """A small CNN; ten queries read what stands in each slot and on which background."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.GroupNorm(8, 32),
            nn.SiLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.GroupNorm(8, 64),
            nn.SiLU(),
            nn.Conv2d(64, _CHANNELS, 3, stride=2, padding=1),
            nn.GroupNorm(8, _CHANNELS),
            nn.SiLU(),
            nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1),
            nn.GroupNorm(8, _CHANNELS),
            nn.SiLU(),
        )
        places = (SIZE // 4) ** 2
        # where each query looks: one fixed, learned map per query and quarter of the channels
        self.gaze = nn.Parameter(torch.randn(4, len(SLOT_NAMES) + 1, places) * 0.02)
        # what stands at each place of a slot matters (a mast, a door), so every place has its own weights
        self.place = nn.Parameter(torch.ones(places, _CHANNELS) + torch.randn(places, _CHANNELS) * 0.3)
        self.mix = nn.Sequential(nn.LayerNorm(_CHANNELS), nn.Linear(_CHANNELS, _CHANNELS), nn.SiLU())

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Pictures [n, 3, 32, 32] in -1..1 -> [n, 10, 96]: nine slots, then the background."""
        flat = self.features(pictures).flatten(2).transpose(1, 2) * self.place
        groups = flat.unflatten(-1, (4, -1)).permute(0, 2, 1, 3)
        read = (self.gaze.softmax(-1) @ groups).transpose(1, 2).flatten(2)
        out: torch.Tensor = self.mix(read)
        return out


class Judge(nn.Module):
    """Holds what each slot shows against what the prompt asks for there, and sums the doubts up to one logit."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = PictureReader()
        self.asked = nn.Linear(_ASKED, _CHANNELS)
        self.asked_ground = nn.Linear(len(BACKGROUND_RGB), _CHANNELS)
        self.compare = nn.Sequential(nn.Linear(3 * _CHANNELS, 64), nn.SiLU(), nn.Linear(64, 16))
        self.head = nn.Sequential(nn.Linear(16 * (len(SLOT_NAMES) + 1), 64), nn.SiLU(), nn.Linear(64, 1))
        self.shape = nn.Linear(_CHANNELS, _SHAPES)  # these three only help training: what does the picture show?
        self.colour = nn.Linear(_CHANNELS, _COLOURS)
        self.background = nn.Linear(_CHANNELS, len(BACKGROUND_RGB))

    def forward(self, pictures: torch.Tensor, slots: torch.Tensor, ground: torch.Tensor) -> torch.Tensor:
        """Pictures [n, 3, 32, 32], asked slots [n, 9, 24] and background [n, 6] -> logits [n]."""
        return self.judge(self.picture(pictures), slots, ground)

    def judge(self, seen: torch.Tensor, slots: torch.Tensor, ground: torch.Tensor) -> torch.Tensor:
        """The same, from what the picture reader saw."""
        asked = torch.cat([self.asked(slots), self.asked_ground(ground)[:, None]], 1)
        doubts = self.compare(torch.cat([seen, asked, seen * asked], -1))
        logits: torch.Tensor = self.head(doubts.flatten(1)).squeeze(-1)
        return logits


class Prompts(nn.Module):
    """The frozen text side: prompt -> probabilities of shape and colour for every slot, and of the background."""

    def __init__(self, tower: TextTower, reader: CaptionReader, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tower, self.reader, self._tokenizer = tower, reader, tokenizer

    @torch.no_grad()
    def forward(self, prompts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """Slots [n, 9, 24] and background [n, 6]."""
        ids = token_ids(self._tokenizer, prompts, self.tower.place.num_embeddings)
        shape, colour, ground = self.reader(self.tower(ids.to(self.tower.norm.weight.device)))
        return torch.cat([shape.softmax(-1), colour.softmax(-1)], -1), ground.softmax(-1)


def as_input(pictures: Sequence[np.ndarray]) -> torch.Tensor:
    """uint8 pictures of any size, [h, w, 3] -> float [n, 3, 32, 32] in -1..1."""
    small = [p if p.shape[:2] == (SIZE, SIZE) else _resized(p) for p in pictures]
    return torch.from_numpy(np.stack(small)).permute(0, 3, 1, 2).float() / 127.5 - 1


def _resized(picture: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(picture).resize((SIZE, SIZE), Image.Resampling.BOX))


class Discriminator:
    """Prompt-aware judge of a picture; `threshold` is the recommended confidence below which to escalate."""

    def __init__(self, prompts: Prompts, judge: Judge, scale: float, shift: float, threshold: float) -> None:
        self._prompts, self._judge = prompts.eval(), judge.eval()
        self._scale, self._shift = scale, shift
        self.threshold = threshold

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read config.json, tokenizer.json and model.safetensors of a folder such as infra/models/discriminator."""
        config = json.loads((folder / "config.json").read_text())
        weights = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}

        def part(name: str) -> dict[str, torch.Tensor]:
            return {k.removeprefix(name): v for k, v in weights.items() if k.startswith(name)}

        tower = TextTower(config["vocabulary"], config["tokens"])
        prompts = Prompts(tower, CaptionReader(), Tokenizer.from_file(str(folder / "tokenizer.json")))
        prompts.tower.load_state_dict(part("tower."))
        prompts.reader.load_state_dict(part("reader."))
        judge = Judge()
        judge.load_state_dict(part("judge."))
        return cls(prompts, judge, config["scale"], config["shift"], config["threshold"])

    @torch.inference_mode()
    def score(self, pictures: Sequence[np.ndarray], prompts: Sequence[str]) -> list[float]:
        """Confidence in [0, 1] for each pair: the calibrated probability that every stated fact is right.

        Pictures are uint8 [h, w, 3] of any size. For a prompt outside the grammar it is how clearly the picture
        shows things of this world, and whether they are those the prompt happens to name.
        """
        if len(pictures) != len(prompts):
            raise ValueError(f"one prompt for each picture: got {len(pictures)} pictures, {len(prompts)} prompts")
        if not pictures:
            return []
        logits = self._judge(as_input(pictures), *self._prompts(prompts))
        return [float(p) for p in torch.sigmoid(logits * self._scale + self._shift)]

"""Image and prompt, learned from scratch: how hard is the prompt, and does the image show its words?

The prompt is hashed words, weighed one by one. A small CNN reads the image, scaled to 64 px, as an 8 x 8 grid; words
with their neighbours look for their places in it, and places for their words. No word or weight is known beforehand.
Source: late interaction of words and places, FILIP (Yao et al. 2021); the rest is ours.
"""

import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from agents.models.saved import Saved

SIDE: Final = 64  # px
WORDS: Final = 64  # of a prompt that are read
BUCKETS: Final = 2048  # words of one bucket are taken for one word; 0 is no word
WIDTH: Final = 64
_DOUBTS = 16
_NEVER = -1e4  # in place of minus infinity, which makes a prompt without words nan


def scaled(images: Sequence[np.ndarray], side: int = SIDE) -> np.ndarray:
    """Return uint8 [n, side, side, 3] of images of any size."""
    size, how = (side, side), Image.Resampling.BILINEAR
    return np.stack(
        [
            image if image.shape[:2] == size else np.asarray(Image.fromarray(image).resize(size, how, reducing_gap=2.0))
            for image in images
        ]
    )


def hashed(prompts: Sequence[str]) -> np.ndarray:
    """Return int64 [n, w]: the bucket of each word or mark of a prompt in any script, then zeros; w is at least 1."""
    found = [re.findall(r"\w+|[^\w\s]", prompt.lower())[:WORDS] for prompt in prompts]
    rows = np.zeros((len(prompts), max([1, *map(len, found)])), np.int64)
    for row, words in zip(rows, found, strict=True):
        row[: len(words)] = [1 + zlib.crc32(word.encode()) % (BUCKETS - 1) for word in words]
    return rows


def _block(inner: int, outer: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(inner, outer, 3, stride, 1), nn.GroupNorm(8, outer), nn.SiLU()]


class Network(nn.Module):
    """Weights of words alone, then a CNN and words that look at each other: about 0.4 M parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = nn.Embedding(BUCKETS, 1, padding_idx=0)
        self.bias = nn.Parameter(torch.zeros(1))
        self.image = nn.Sequential(
            nn.Conv2d(3, 48, 4, 4), nn.SiLU(), *_block(48, 64, 1), *_block(64, 96, 2), *_block(96, 96, 1),
            nn.Conv2d(96, WIDTH, 1),
        )  # fmt: skip
        self.place = nn.Parameter(torch.randn((SIDE // 8) ** 2, WIDTH) * 0.1)
        self.word = nn.Embedding(BUCKETS, WIDTH, padding_idx=0)
        self.near = nn.Sequential(
            nn.Conv1d(WIDTH, WIDTH, 5, padding=2), nn.SiLU(), nn.Conv1d(WIDTH, WIDTH, 5, padding=2)
        )
        self.heat = nn.Parameter(torch.tensor(2.3))  # log of what cosines are multiplied by
        self.doubts = nn.ModuleList(
            nn.Sequential(nn.Linear(3 * WIDTH, 64), nn.SiLU(), nn.Linear(64, _DOUBTS)) for _ in ("words", "places")
        )
        last = nn.Linear(64, 1)
        self.head = nn.Sequential(nn.Linear(4 * _DOUBTS + WIDTH + 1, 64), nn.SiLU(), nn.Dropout(0.2), last)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def seen(self, images: torch.Tensor) -> torch.Tensor:
        """uint8 [n, SIDE, SIDE, 3] -> places [n, 64, WIDTH]."""
        pixels = images.permute(0, 3, 1, 2).float() / 127.5 - 1
        places: torch.Tensor = self.image(pixels).flatten(2).transpose(1, 2) + self.place
        return places

    def asked(self, words: torch.Tensor) -> torch.Tensor:
        """Buckets [n, w] -> words with their neighbours [n, w, WIDTH]; zeros where there is no word."""
        own = self.word(words)
        asked: torch.Tensor = (own + self.near(own.transpose(1, 2)).transpose(1, 2)) * (words > 0)[..., None]
        return asked

    def agreement(self, seen: torch.Tensor, asked: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Return [n, m]: how well each of n images fits each of m prompts, as logits of a choice among them."""
        cosines = torch.einsum("npc,mwc->nmwp", functional.normalize(seen, dim=-1), functional.normalize(asked, dim=-1))
        is_word = words > 0
        found = (cosines.amax(-1) * is_word).sum(-1) / is_word.sum(-1).clamp(min=1)
        explained = cosines.masked_fill(~is_word[None, :, :, None], -1).amax(-2).mean(-1)
        return (found + explained) / 2 * self.heat.exp()

    def comparison(self, seen: torch.Tensor, asked: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Return [n]: what images and prompts, compared, add to the logits."""
        is_word = (words > 0)[..., None]
        cosines = functional.normalize(asked, dim=-1) @ functional.normalize(seen, dim=-1).transpose(1, 2)
        sharp = cosines * self.heat.exp()
        shown = sharp.softmax(-1) @ seen  # by each word
        meant = sharp.masked_fill(~is_word, _NEVER).transpose(1, 2).softmax(-1) @ asked  # by each place
        of_words, of_places = (
            doubts(torch.cat([own, other, own * other], -1))
            for doubts, own, other in zip(self.doubts, (asked, seen), (shown, meant), strict=True)
        )
        count = is_word.sum(1).clamp(min=1)
        pooled = [
            (of_words * is_word).sum(1) / count,
            of_words.masked_fill(~is_word, _NEVER).amax(1).clamp(min=-50),
            of_places.mean(1),
            of_places.amax(1),
            seen.mean(1),
            (cosines.amax(-1, keepdim=True) * is_word).sum(1) / count,
        ]
        logits: torch.Tensor = self.head(torch.cat(pooled, -1)).squeeze(-1)
        return logits

    def forward(self, images: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Images uint8 [n, SIDE, SIDE, 3] and buckets [n, w] -> logits [n]."""
        return self.of_words(words) + self.comparison(self.seen(images), self.asked(words), words)

    def of_words(self, words: torch.Tensor) -> torch.Tensor:
        """Buckets [n, w] -> the words' own part of the logits [n]."""
        logits: torch.Tensor = self.alone(words).sum(1).squeeze(-1) + self.bias
        return logits


class Pixels:
    """A discriminator's model that needs nothing but images, prompts and labels to be learned."""

    kind: Final = "pixels"

    def __init__(self, network: Network) -> None:
        self.network = network.eval()

    @classmethod
    def load(cls, saved: Saved) -> Self:
        return cls(saved.into("network", Network()))

    def parts(self) -> Mapping[str, nn.Module]:
        """Return the parts to save for `load`."""
        return {"network": self.network}

    def config(self) -> dict[str, Any]:
        return {}

    @torch.no_grad()
    def logits(self, images: Sequence[np.ndarray], prompts: Sequence[str]) -> torch.Tensor:
        """[n], higher where the image is more likely to be good for its prompt."""
        where = self.network.bias.device
        words = torch.from_numpy(hashed(prompts)).to(where)
        logits: torch.Tensor = self.network(torch.from_numpy(scaled(images)).to(where), words).cpu()
        return logits

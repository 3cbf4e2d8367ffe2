"""The family's frozen text encoder with its tokenizer, for parts that load without transformers."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

import torch
from tokenizers import Tokenizer
from torch import nn

from agents.models.saved import Saved
from agents.models.text_tower import TextTower, token_ids

TOKENIZER: Final = "tokenizer.json"


class PromptEncoder(nn.Module):
    """Encodes prompts as token states. The tokenizer neither pads nor cuts: `token_ids` does."""

    def __init__(self, tower: TextTower, tokenizer: Tokenizer) -> None:
        super().__init__()
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tower, self._tokenizer = tower, tokenizer

    @classmethod
    def load(cls, saved: Saved) -> Self:
        """Load the part "tower" of a folder that `config` and `copy_tokenizer` were written into."""
        tower = TextTower(saved.config["vocabulary"], saved.config["tokens"])
        return cls(saved.into("tower", tower), Tokenizer.from_file(str(saved.folder / TOKENIZER)))

    @property
    def config(self) -> dict[str, Any]:
        """Return the configuration that `load` needs beside the weights."""
        return {"vocabulary": self.tower.token.num_embeddings, "tokens": self.tower.place.num_embeddings}

    @torch.no_grad()
    def forward(self, prompts: Sequence[str]) -> torch.Tensor:
        """Token states [n, tokens, 128] of n >= 1 prompts."""
        ids = token_ids(self._tokenizer, prompts, self.tower.place.num_embeddings)
        states: torch.Tensor = self.tower(ids.to(self.tower.norm.weight.device))
        return states


def copy_tokenizer(tokenizer: Path, folder: Path) -> None:
    """Put a tokenizer.json beside the weights in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(tokenizer, folder / TOKENIZER)

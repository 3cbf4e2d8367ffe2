"""The family's frozen text encoder with its tokenizer, for parts that load without transformers."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from tokenizers import Tokenizer
from torch import nn

from agents.models.saved import Saved
from agents.models.text_tower import TextTower
from agents.models.tokens import open_tokenizer, token_ids


class PromptEncoder(nn.Module):
    """Encodes prompts as token states."""

    def __init__(self, tower: TextTower, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tower, self._tokenizer = tower, tokenizer

    @classmethod
    def load(cls, saved: Saved) -> Self:
        """Load the part "tower" of a folder that holds `config` and a tokenizer.json."""
        tower = TextTower(saved.config["vocabulary"], saved.config["tokens"])
        return cls(saved.into("tower", tower), open_tokenizer(saved.folder))

    @property
    def config(self) -> dict[str, Any]:
        """Return the configuration that `load` needs beside the weights."""
        return {"vocabulary": self.tower.token.num_embeddings, "tokens": self.tower.place.num_embeddings}

    @torch.no_grad()
    def forward(self, prompts: Sequence[str]) -> torch.Tensor:
        """Token states [n, tokens, 128] of n >= 1 prompts."""
        ids = token_ids(self._tokenizer, prompts, self.tower.place.num_embeddings)
        states: torch.Tensor = self.tower(torch.from_numpy(ids).to(self.tower.norm.weight.device))
        return states

"""How good each level's picture of a prompt would be, from the prompt alone.

It imports neither diffusers nor transformers, so a role that only classifies starts fast.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import nn

from agents.models.prompt_encoder import TOKENIZER
from agents.models.saved import Saved
from agents.models.text_tower import TextTower, token_ids

_WIDTH: Final = 128  # of the text tower's states
_QUERIES: Final = 4
_LONGEST: Final = 1000  # characters; the 48 tokens that count are in the first few hundred


class Logits(NamedTuple):
    """What the head says; sigmoid makes shares and probabilities of them."""

    quality: torch.Tensor  # [n, k] share of the facts that will hold
    all_facts: torch.Tensor  # [n, k] probability that all do
    inside: torch.Tensor  # [n] probability that the prompt states facts of this world


class QualityHead(nn.Module):
    """One transformer layer over the frozen tower's states, and attention pooling by a few queries."""

    def __init__(self, levels: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.levels = levels
        self.layer = nn.TransformerEncoderLayer(
            _WIDTH, 4, 256, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.queries = nn.Parameter(torch.randn(_QUERIES, _WIDTH) * 0.05)
        self.pool = nn.MultiheadAttention(_WIDTH, 4, batch_first=True)
        self.mix = nn.Sequential(
            nn.LayerNorm(_QUERIES * _WIDTH),
            nn.Dropout(dropout),
            nn.Linear(_QUERIES * _WIDTH, 128),
            nn.GELU(),
            nn.Dropout(dropout),
        )
        self.out = nn.Linear(128, 2 * levels + 1)

    def forward(self, states: torch.Tensor, padding: torch.Tensor) -> Logits:
        """States [n, t, 128]; padding, bool [n, t], is not looked at."""
        states = self.layer(states, src_key_padding_mask=padding)
        queries = self.queries.expand(len(states), -1, -1)
        read, _ = self.pool(queries, states, states, key_padding_mask=padding, need_weights=False)
        out = self.out(self.mix(read.flatten(1)))
        return Logits(out[:, : self.levels], out[:, self.levels : -1], out[:, -1])


class States(nn.Module):
    """The frozen text side: prompts -> token states, cut to the longest, which changes none as attention is causal."""

    def __init__(self, tower: TextTower, tokenizer: Tokenizer) -> None:
        super().__init__()
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tower, self._tokenizer = tower, tokenizer

    @torch.no_grad()
    def forward(self, prompts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """States [n, t, 128], and bool [n, t] that is true after a prompt's own tokens."""
        ids = token_ids(self._tokenizer, [_clean(prompt) for prompt in prompts], self.tower.place.num_embeddings)
        last = (ids != ids[:, -1:]).sum(1)  # words and the start; the mark after them ends the prompt, more is padding
        t = int(last.max()) + 1
        padding = torch.arange(t) > last[:, None]
        where = self.tower.norm.weight.device
        return self.tower(ids[:, :t].to(where)), padding.to(where)


def _clean(prompt: str) -> str:
    """The prompt's beginning as UTF-8 can hold it: broken surrogates become question marks."""
    return prompt[:_LONGEST].encode("utf-8", "replace").decode("utf-8")


class Predictions(NamedTuple):
    """For n prompts on k levels."""

    quality: np.ndarray  # [n, k] expected share of the stated facts that hold
    all_facts: np.ndarray  # [n, k] probability that all of them do
    inside: np.ndarray  # [n] probability that the prompt states facts of this world


class Predictor:
    """Predicts every level's quality; a prompt that states no facts of this world is taken for an average one."""

    def __init__(
        self, states: States, head: QualityHead, levels: Sequence[str], average: Mapping[str, list[float]]
    ) -> None:
        """Levels are the fastest first; `average` holds the means of "quality" and "all_facts" over taught prompts."""
        self.levels = tuple(levels)
        self._states, self._head = states.eval(), head.eval()
        self._average = {name: torch.tensor(average[name]) for name in ("quality", "all_facts")}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read config.json, tokenizer.json and model.safetensors of a folder in infra/models/classifiers."""
        saved = Saved.load(folder)
        config = saved.config
        tower = saved.into("tower", TextTower(config["vocabulary"], config["tokens"]))
        states = States(tower, Tokenizer.from_file(str(folder / TOKENIZER)))
        return cls(states, saved.into("head", QualityHead(len(config["levels"]))), config["levels"], config["average"])

    @torch.inference_mode()
    def predict(self, prompts: Sequence[str]) -> Predictions:
        """For one prompt or more, of any text."""
        logits = self._head(*self._states(prompts))
        inside = torch.sigmoid(logits.inside)
        quality, all_facts = (
            torch.lerp(self._average[name], torch.sigmoid(part.float()), inside[:, None])
            for name, part in (("quality", logits.quality), ("all_facts", logits.all_facts))
        )
        return Predictions(quality.numpy(), all_facts.numpy(), inside.numpy())

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """The expected quality of every level, for each prompt."""
        rows = self.predict(prompts).quality.tolist()
        return [dict(zip(self.levels, row, strict=True)) for row in rows]

"""Predicts each level's quality by pretrained networks of transformers: the kinds `encoder` and `bert`.

`encoder`: a frozen encoder of texts and one logistic regression a level on what it says of a prompt. `bert`: a network
for sequence classification with one output a level, fine-tuned on prompts as ARGUS's classifier is (4.1, BERT).
`agents.learning.classifiers.pretrained` fits both.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from agents.models.pretrained import device_named, place_of
from agents.models.saved import Saved
from schemas.errors import PochadeError

ENCODER, BERT = "encoder", "bert"
NETWORK: Final = "network"  # of a `bert`, in its folder
BATCH: Final = 32  # prompts at once
POOLINGS: Final = ("mean", "pooler")
_LONGEST, _TOKENS = 4000, 256  # characters and tokens of a prompt, at most


class Network(NamedTuple):
    """A network of transformers with its tokenizer, on a device."""

    model: Any
    tokenizer: Any
    device: str

    def tokens(self, prompts: Sequence[str]) -> Any:
        """The tokens of prompts of any text: blank is read as a full stop, a broken surrogate as a question mark."""
        texts = [prompt[:_LONGEST].encode("utf-8", "replace").decode("utf-8").strip() or "." for prompt in prompts]
        most = min(self.tokenizer.model_max_length, _TOKENS)
        return self.tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt").to(
            self.device
        )


def open_network(kind: Any, named: str, device: str = "", **options: Any) -> Network:
    """Open a folder, or OWNER/NAME@REVISION of the hub, by a class of transformers; weights in safetensors alone.

    `device` "": cuda where there is one. Raises PochadeError where it cannot be opened.
    """
    device, place = device_named(device), place_of(named)
    try:
        tokenizer = AutoTokenizer.from_pretrained(**place.words)
        model = kind.from_pretrained(**place.files, dtype=torch.float32, **options)
    except Exception as error:  # whatever the library raises of what it finds or cannot fetch
        raise PochadeError(f"model {named!r} is not opened by {kind.__name__}: {error}") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    model = getattr(model, "text_model", model)  # of a CLIP
    return Network(model.to(device).eval().requires_grad_(False), tokenizer, device)


@torch.inference_mode()
def embedded(network: Network, prompts: Sequence[str], pooling: str) -> np.ndarray:
    """float32 [n, d] of prompts: the mean of the tokens' states, or the network's own pooling."""
    parts = []
    for at in range(0, len(prompts), BATCH):
        tokens = network.tokens(prompts[at : at + BATCH])
        out = network.model(**tokens)
        mask = tokens["attention_mask"][..., None]
        mean = (out.last_hidden_state * mask).sum(1) / mask.sum(1).clamp(min=1)
        parts.append((out.pooler_output if pooling == "pooler" else mean).float().cpu().numpy())
    return np.concatenate(parts)


@torch.inference_mode()
def logits(network: Network, prompts: Sequence[str]) -> np.ndarray:
    """float32 [n, k] of a network for sequence classification."""
    parts = [network.model(**network.tokens(prompts[at : at + BATCH])).logits for at in range(0, len(prompts), BATCH)]
    return np.asarray(torch.cat(parts).float().cpu().numpy())


class EncoderPredictor:
    """A frozen encoder and a regression a level."""

    def __init__(
        self, network: Network, pooling: str, levels: Sequence[str], weights: Mapping[str, np.ndarray]
    ) -> None:
        """`weights`: weights [d, k] and bias [k]; `levels` k, the fastest first."""
        self.levels = tuple(levels)
        self._network, self._pooling, self._weights = network, pooling, weights

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read config.json and model.safetensors, and open the encoder that they name. Raises PochadeError."""
        saved = Saved.load(folder)
        network = open_network(AutoModel, saved.config["encoder"])
        return cls(network, saved.config["pooling"], saved.config["levels"], saved.weights)

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Predicted quality of each prompt, of any text, as {level: value in 0..1}."""
        made = embedded(self._network, prompts, self._pooling) @ self._weights["weights"] + self._weights["bias"]
        return _by_level(self.levels, made)


class BertPredictor:
    """A network with one output a level."""

    def __init__(self, network: Network, levels: Sequence[str]) -> None:
        self.levels = tuple(levels)
        self._network = network

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read config.json and the folder of the network. Raises PochadeError."""
        network = open_network(AutoModelForSequenceClassification, str((folder / NETWORK).resolve()))
        return cls(network, Saved.load(folder).config["levels"])

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Predicted quality of each prompt, of any text, as {level: value in 0..1}."""
        return _by_level(self.levels, logits(self._network, prompts))


def _by_level(levels: Sequence[str], made: np.ndarray) -> list[dict[str, float]]:
    return [dict(zip(levels, row, strict=True)) for row in (0.5 * np.tanh(0.5 * made) + 0.5).tolist()]

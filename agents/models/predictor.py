"""Predicts the quality of each level's image of a prompt, from the prompt alone.

It computes with numpy what `agents.lab.training.classifiers.quality_head` learns with torch, so that a role that only
classifies loads neither torch nor transformers.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np
from tokenizers import Tokenizer

from agents.models.saved import Saved
from agents.models.tokens import open_tokenizer, token_ids
from schemas.errors import PochadeError

WIDTH: Final = 64
STATES: Final = 128  # width of the text tower's
HEADS: Final = 4  # of every attention
_LONGEST: Final = 1000  # characters; the 48 tokens that count are in the first few hundred
_BATCH: Final = 64  # prompts at once: about 50 MB
_ERF: Final = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)

Array = np.ndarray


class Predictions(NamedTuple):
    """Predictions for n prompts on k levels."""

    quality: Array  # [n, k] expected quality: the probability that all stated facts hold
    inside: Array  # [n] probability that the prompt states facts of this world


class Predictor:
    """Predicts every level's quality; a prompt that states no facts of this world is taken for an average one."""

    def __init__(self, tokenizer: Tokenizer, weights: Mapping[str, Array], config: Mapping[str, Any]) -> None:
        """Reads of the config: `levels`, the fastest first; `average`, the mean quality of the taught prompts, [k]."""
        self.levels: tuple[str, ...] = tuple(config["levels"])
        self._tokenizer, self._network = tokenizer, _Network(weights)
        self._average = np.array(config["average"], np.float32)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read config.json, tokenizer.json and model.safetensors. Raises PochadeError: one of them lacks something."""
        saved = Saved.load(folder)
        try:
            predictor = cls(open_tokenizer(folder), saved.weights, saved.config)
            predictor.predict([""])  # a weight that is missing is an error here, not with the first prompt
        except (KeyError, ValueError) as error:
            raise PochadeError(f"{folder} holds no weights of a predictor ({error}): train it again") from error
        return predictor

    def predict(self, prompts: Sequence[str]) -> Predictions:
        """Predict for one prompt or more, of any text."""
        parts = [self._predict(prompts[at : at + _BATCH]) for at in range(0, len(prompts), _BATCH)]
        return Predictions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _predict(self, prompts: Sequence[str]) -> Predictions:
        ids = token_ids(self._tokenizer, shortened(prompts), self._network.length)
        quality, inside = (_sigmoid(logits) for logits in self._network(ids))
        return Predictions(self._average + inside[:, None] * (quality[:, : len(self.levels)] - self._average), inside)

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Predicted quality of each prompt as {level: value}."""
        return [dict(zip(self.levels, row, strict=True)) for row in self.predict(prompts).quality.tolist()]


def shortened(prompts: Sequence[str]) -> list[str]:
    """Return what is read of each prompt: broken surrogates are read as question marks."""
    return [prompt[:_LONGEST].encode("utf-8", "replace").decode("utf-8") for prompt in prompts]


class _Network:
    """Token ids [n, tokens] -> logits [n, 2k] of quality and facts, and [n] of whether facts are stated."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self._weights = weights
        self.length = len(weights["tower.place.weight"])
        self._towers = 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("tower.layers."))
        self._future = np.triu(np.full((self.length, self.length), -np.inf, np.float32), 1)

    def __call__(self, ids: Array) -> tuple[Array, Array]:
        states = self._tower(ids)
        mean = states.mean(1)
        inside = self._linear("head.inside.3", _gelu(self._linear("head.inside.1", self._norm("head.inside.0", mean))))
        return self._head(*self._read(states), mean), inside[:, 0]

    def _tower(self, ids: Array) -> Array:
        """The states of the frozen text encoder [n, tokens, STATES]."""
        x = self._weights["tower.token.weight"][ids] + self._weights["tower.place.weight"]
        for layer in (f"tower.layers.{i}" for i in range(self._towers)):
            y = self._norm(f"{layer}.norm1", x)
            q, k, v = (self._linear(f"{layer}.{part}", y) for part in "qkv")
            x = x + self._linear(f"{layer}.out", _attention(q, k, v, self._future))
            y = self._linear(f"{layer}.up", self._norm(f"{layer}.norm2", x))
            x = x + self._linear(f"{layer}.down", y * _sigmoid(1.702 * y))
        return self._norm("tower.norm", x)

    def _read(self, states: Array) -> tuple[Array, Array]:
        """The probabilities of what is asked for: slots [n, slots, ...], and the scene as a whole [n, ...]."""
        queries = self._weights["reader.queries"]
        q, k, v = self._projected("reader.attention", queries[None], states, states)
        read = self._linear("reader.attention.out_proj", _attention(q, k, v)) + queries
        read = _gelu(self._linear("reader.mix.1", self._norm("reader.mix.0", read)))
        slots = [_softmax(self._linear(f"reader.{part}", read[:, :-1])) for part in ("shape", "colour", "size")]
        scene = [_softmax(self._linear(f"reader.{part}", read[:, -1])) for part in ("background", "absent")]
        return np.concatenate(slots, -1), np.concatenate(scene, -1)

    def _head(self, slots: Array, scene: Array, mean: Array) -> Array:
        there = 1 - slots[..., 0]
        things = self._linear("head.thing", slots) + self._weights["head.place"]
        whole = self._linear("head.scene", scene) + self._linear("head.mean.2", self._norm("head.mean.0", mean))
        x = np.concatenate([_gelu(self._linear("head.mix.2", _gelu(part))) for part in (things, whole[:, None])], 1)
        empty = np.where(np.pad(there, ((0, 0), (0, 1)), constant_values=1) < 0.5, np.float32(-np.inf), np.float32(0))
        y = self._norm("head.layer.norm1", x)
        q, k, v = self._projected("head.layer.self_attn", y, y, y)
        x = x + self._linear("head.layer.self_attn.out_proj", _attention(q, k, v, empty[:, None, None]))
        y = _gelu(self._linear("head.layer.linear1", self._norm("head.layer.norm2", x)))
        x = x + self._linear("head.layer.linear2", y)
        y = np.concatenate([(x[:, :-1] * there[..., None]).sum(1), x[:, -1]], -1)
        return self._linear("head.out.3", _gelu(self._linear("head.out.0", y)))

    def _linear(self, name: str, x: Array) -> Array:
        out: Array = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return out

    def _projected(self, name: str, *inputs: Array) -> list[Array]:
        """Queries, keys and values by one attention's projections."""
        weights, biases = (np.split(self._weights[f"{name}.in_proj_{part}"], 3) for part in ("weight", "bias"))
        return [x @ w.T + b for x, w, b in zip(inputs, weights, biases, strict=True)]

    def _norm(self, name: str, x: Array) -> Array:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        out: Array = x * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return out


def _attention(q: Array, k: Array, v: Array, mask: Array | float = 0.0) -> Array:
    """Mix v [n, keys, width] for q [n or 1, queries, width]; `mask` is added to logits [n, HEADS, queries, keys]."""
    q, k, v = (x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2) for x in (q, k, v))
    mixed: Array = _softmax(q @ k.swapaxes(2, 3) / np.float32(np.sqrt(q.shape[-1])) + mask) @ v
    return mixed.swapaxes(1, 2).reshape(len(v), q.shape[2], -1)


def _softmax(x: Array) -> Array:
    x = np.exp(x - x.max(-1, keepdims=True))
    out: Array = x / x.sum(-1, keepdims=True)
    return out


def _sigmoid(x: Array) -> Array:
    out: Array = 0.5 * np.tanh(0.5 * x) + 0.5
    return out


def _gelu(x: Array) -> Array:
    """GELU by an approximation of erf. Source: Abramowitz and Stegun 7.1.26, which errs by 1.5e-7 at most."""
    y = np.abs(x) * np.float32(np.sqrt(0.5))
    t = 1 / (1 + 0.3275911 * y)
    series = np.zeros_like(t)
    for factor in _ERF:
        series = (series + factor) * t
    out: Array = 0.5 * x * (1 + np.sign(x) * (1 - series * np.exp(-y * y)))
    return out

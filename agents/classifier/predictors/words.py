"""Predicts each level's quality from the words of a prompt, with numpy alone: the kind `words`.

One logistic regression a level, on hashed words and pairs of words (Weinberger et al. 2009, "Feature hashing"), on
HADIS's eight rule features (3.3, Table 1) and on lengths. `agents.learning.classifiers.words` fits it.
"""

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, Self

import numpy as np

from agents.classifier.features import WORD, FeatureExtractor
from agents.models.saved import Saved
from planner.serving.hardness import FEATURES, normalised
from schemas.errors import PochadeError

KIND: Final = "words"
BUCKETS: Final = 2**15  # of words and pairs
PAIRS: Final = 0.5  # of the weight of a word; on 2,000 prompts 1 recovers .02 less, and 0 as much
NUMBERS: Final = len(FEATURES) + 2  # of a prompt, beside its words


def hashed(prompt: str) -> dict[int, float]:
    """Bucket -> log(1 + times) of a prompt's words, and PAIRS of that for neighbouring words, without case."""
    words = WORD.findall(prompt.lower())
    found = defaultdict[int, float](float)
    for grams, weight in ((words, 1.0), (map(" ".join, pairwise(words)), PAIRS)):
        for gram, times in Counter(grams).items():
            found[zlib.crc32(gram.encode("utf-8", "replace")) % BUCKETS] += weight * math.log1p(times)
    return found


def numbers(extractor: FeatureExtractor, prompt: str) -> list[float]:
    """The rule features, normalised, and log lengths in words and characters: NUMBERS values, about 0..1."""
    features = extractor.extract(prompt)
    lengths = np.log1p([features.prompt_length, len(prompt)]) / 8
    return [*normalised(features).values(), *lengths.tolist()]


class WordsPredictor:
    """Logits of a prompt: its hashed words and its numbers, times the weights of each level."""

    def __init__(self, levels: Sequence[str], weights: Mapping[str, np.ndarray]) -> None:
        """`weights`: words [BUCKETS, k], numbers [NUMBERS, k], bias [k]; `levels` k, the fastest first."""
        self.levels = tuple(levels)
        shapes = {"words": (BUCKETS, len(levels)), "numbers": (NUMBERS, len(levels)), "bias": (len(levels),)}
        found = {name: each.shape for name, each in weights.items()}
        if found != shapes:
            raise ValueError(f"weights must be of {shapes}, are of {found}")
        self._weights = {name: each.astype(np.float32) for name, each in weights.items()}
        self._extractor = FeatureExtractor()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read config.json and model.safetensors. Raises PochadeError: one of them lacks something."""
        saved = Saved.load(folder)
        try:
            return cls(saved.config["levels"], saved.weights)
        except (KeyError, ValueError) as error:
            raise PochadeError(f"{folder} holds no classifier of kind {KIND!r} ({error}): learn it again") from error

    def quality(self, prompts: Sequence[str]) -> list[dict[str, float]]:
        """Predicted quality of each prompt, of any text, as {level: value in 0..1}."""
        return [dict(zip(self.levels, self._one(prompt).tolist(), strict=True)) for prompt in prompts]

    def _one(self, prompt: str) -> np.ndarray:
        found, weights = hashed(prompt), self._weights
        logits = np.array(numbers(self._extractor, prompt)) @ weights["numbers"] + weights["bias"]
        if found:
            logits = logits + np.array([*found.values()]) @ weights["words"][[*found]]
        return np.asarray(0.5 * np.tanh(0.5 * logits) + 0.5)

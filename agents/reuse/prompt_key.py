"""The vectors by which prompts are compared: what worker and index writer must make alike.

An encoder has a digest of whatever decides its vectors. It is part of the collection's name, so that the vectors of two
encoders are never compared: another encoder begins with an empty collection.
"""

import hashlib
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from schemas.errors import Unknown
from streams.vectors.keys import DEFAULT, SCORER, SCORER_DIMENSION, WORDS_DIGEST, WORDS_DIMENSION, digest_of_folder

WORD = re.compile(r"\w+")


class PromptKey(Protocol):
    """Turns prompts into vectors. Not for use by several threads at a time."""

    @property
    def digest(self) -> str:
        """Digest of everything that decides the vectors."""

    @property
    def dimension(self) -> int:
        """Number of values of each vector."""

    def embed(self, prompts: Sequence[str]) -> np.ndarray:
        """Return float32 [n, dimension], of unit length but for prompts that say nothing; any text has a vector."""


class ScorerKey:
    """The prompt tower of the shipped scorer over the tiny family's text encoder: 96 values, 1 ms a prompt. Torch."""

    dimension = SCORER_DIMENSION

    def __init__(self, folder: pathlib.Path) -> None:
        from agents.models.scorer import Scorer  # torch: only where prompts are compared

        self.digest = digest_of_folder(folder)
        self._scorer = Scorer.load(folder)

    def embed(self, prompts: Sequence[str]) -> np.ndarray:
        return self._scorer.embed_prompts(prompts)


class WordsKey:
    """A prompt's words in hashed places, without any model: for tests and load tests. It knows no synonyms."""

    digest = WORDS_DIGEST
    dimension = WORDS_DIMENSION

    def embed(self, prompts: Sequence[str]) -> np.ndarray:
        vectors = np.zeros((len(prompts), WORDS_DIMENSION), np.float32)
        for vector, prompt in zip(vectors, prompts, strict=True):
            for word in WORD.findall(prompt.lower()) or [prompt]:
                drawn = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
                vector[drawn[0] % WORDS_DIMENSION] += 1.0 if drawn[1] & 1 else -1.0
                vector[drawn[2] % WORDS_DIMENSION] += 1.0 if drawn[3] & 1 else -1.0
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths == 0.0, 1.0, lengths)


KEYS: Final[Mapping[str, Callable[[], PromptKey]]] = {"scorer": lambda: ScorerKey(SCORER), "words": WordsKey}


def open_key(name: str) -> PromptKey:
    """Load the encoder that a plan names; "": the default one.

    Raises:
        Unknown: there is no encoder of that name.
        PochadeError: its files are missing.
    """
    if (name or DEFAULT) not in KEYS:
        raise Unknown("encoder of prompts", name, KEYS)
    return KEYS[name or DEFAULT]()

"""Part-of-speech tags of prompts, by a linear model of each word and the two words on either side.

`agents/lab/training/classifiers/prompt_tagger.py` makes the two data files beside this module, and names their sources.
"""

import importlib.resources
import re
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple, Protocol

import numpy as np

WEIGHTS: Final = "tagger.npz"  # `cues`: uint32 [n], rising; `weights`: int8 [n, len(TAGS)]
COMMON_WORDS: Final = "common_words.txt"
TAGS: Final = ("", "NN", "NNP", "JJ", "VBN", "VBG", "VB")  # Penn Treebank's, each for its family; "": any other
_NOISE: Final = re.compile(r"[^\w\s.,:;!?'\u2019\"()&/-]")  # emoji, NUL, broken surrogates
_TOKEN: Final = re.compile(r"\b[A-Za-z]\.|['\u2019][Ss]\b|\w+|\.{2,}|\S")


class Token(NamedTuple):
    """A word with its tag."""

    word: str  # lower case
    tag: str  # Penn Treebank
    is_capital: bool  # and not just the first word


Tagged = list[Token]


class Tagger(Protocol):
    """Tags any text: empty, foreign, with NULs or broken surrogates."""

    def tags(self, text: str) -> Tagged: ...


class PromptTagger:
    """Tags one prompt at a time."""

    def __init__(self) -> None:
        with importlib.resources.files("agents.classifier").joinpath(WEIGHTS).open("rb") as file, np.load(file) as data:
            self._cues = data["cues"]
            self._weights = np.vstack([data["weights"], np.zeros_like(data["weights"][:1])]).astype(np.int32)

    def tags(self, text: str) -> Tagged:
        """Return the words of any text with their tags; a cue that was not learned counts nothing."""
        words = split(text)
        if not words:
            return []
        best = self._weights[places(self._cues, cues_of(words))].sum(axis=1).argmax(axis=1).tolist()
        return [Token(word, TAGS[tag], is_capital) for (word, is_capital), tag in zip(words, best, strict=True)]


def clean(text: str) -> str:
    """Return a text without unknown characters, with single spaces, and in lower case if it is all capitals."""
    spaced = " ".join(_NOISE.sub(" ", text).split())
    return spaced.lower() if spaced.isupper() else spaced


def split(text: str) -> list[tuple[str, bool]]:
    """Return the words and marks of a text in lower case, and whether each has a capital and is not the first."""
    return [(word.lower(), i > 0 and word[0].isupper()) for i, word in enumerate(_TOKEN.findall(clean(text)))]


def places(known: np.ndarray, cues: np.ndarray) -> np.ndarray:
    """Return where each cue stands among the known ones, which rise; an unknown one after the last."""
    at = np.searchsorted(known, cues).clip(max=len(known) - 1)
    return np.where(known[at] == cues, at, len(known))


def cues_of(words: Sequence[tuple[str, bool]]) -> np.ndarray:
    """Return what each word is tagged by, as uint32 [words, cues]: checksums of the cues' texts."""
    around = ["", "", *(word for word, _ in words), "", ""]
    rows = []
    for i, (word, is_capital) in enumerate(words):
        before2, before, _, after, after2 = around[i : i + 5]
        end, kind = word[-3:], f"{'C' * is_capital}{'R' * (word not in common_words())}"
        cues = (
            f"0{word}", f"1{word[-1:]}{kind}", f"2{word[-2:]}{kind}", f"3{end}", f"4{word[-4:]}", f"5{word[:2]}",
            f"6{before}", f"7{after}", f"8{before} {word}", f"9{word} {after}", f"a{before[-3:]} {end}",
            f"b{end} {after[-3:]}", f"c{before2}", f"d{after2}", f"e{before[-3:]} {after[-3:]}",
        )  # fmt: skip
        rows.append([zlib.crc32(cue.encode()) for cue in cues])
    return np.array(rows, np.uint32)


@cache
def common_words() -> frozenset[str]:
    """Return the words that make up at least 1 in 100,000 of all English words."""
    text = importlib.resources.files("agents.classifier").joinpath(COMMON_WORDS).read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if not line.startswith("#"))

"""The tokenizer of the family's text encoder, without torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from tokenizers import Tokenizer

TOKENIZER: Final = "tokenizer.json"


def open_tokenizer(folder: Path) -> Tokenizer:
    """Read the tokenizer of a model's folder."""
    return Tokenizer.from_file(str(folder / TOKENIZER))


def token_ids(tokenizer: Tokenizer, prompts: Sequence[str], length: int) -> np.ndarray:
    """int64 [n, length]: start, words, end, then padding with the end token, as CLIP pipelines do."""
    start, end = (tokenizer.token_to_id(mark) for mark in ("<|startoftext|>", "<|endoftext|>"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    rows = []
    for encoded in tokenizer.encode_batch(list(prompts), add_special_tokens=False):
        words = encoded.ids[: length - 2]
        rows.append([start, *words, *[end] * (length - 1 - len(words))])
    return np.array(rows, np.int64)

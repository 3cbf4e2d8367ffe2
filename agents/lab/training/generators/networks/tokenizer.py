"""A CLIP-format tokenizer (byte-level BPE) over the words of the tiny world and of everyday prompts."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from agents.lab.training.loop import scaled
from agents.lab.world import scenes
from agents.lab.world.free_form import sentence
from agents.lab.world.free_words import FREE_WORDS
from agents.lab.world.phrases import STYLES

LENGTH = 48  # tokens a prompt is cut to
_SENTENCES = 20_000  # captions to learn the merges from, and as many free-form ones
VOCABULARY = 1536  # before the word-final bytes
START, END = "<|startoftext|>", "<|endoftext|>"


def _corpus(rng: np.random.Generator) -> Iterator[str]:
    for _ in range(scaled(_SENTENCES)):
        yield scenes.sample(rng).caption
        yield sentence(rng)
    for _ in range(30):
        yield " ".join(FREE_WORDS)
        yield " ".join(STYLES)


def train(folder: Path, seed: int) -> CLIPTokenizer:
    """Learn the merges and save the tokenizer as diffusers pipelines expect it."""
    bpe = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token=END))
    bpe.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    # CLIP's own pre-tokenizer splits into words, digits and punctuation before the byte-level alphabet
    words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    bpe.train_from_iterator(_corpus(np.random.default_rng(seed)), trainer)
    learned = json.loads(bpe.to_str())["model"]
    vocabulary: dict[str, int] = dict(learned["vocab"])
    for byte in pre_tokenizers.ByteLevel.alphabet():  # so that no text at all is unknown
        vocabulary.setdefault(f"{byte}</w>", len(vocabulary))
    for special in (START, END):
        vocabulary[special] = len(vocabulary)
    merges = [tuple(merge) if isinstance(merge, list) else tuple(merge.split(" ")) for merge in learned["merges"]]
    tokenizer = CLIPTokenizer(vocab=vocabulary, merges=merges, model_max_length=LENGTH)
    tokenizer.save_pretrained(folder)
    return tokenizer

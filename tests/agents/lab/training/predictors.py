"""Untrained predictors on an untrained text side, for tests of everything that does not depend on what was learned."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from agents.lab.training.classifiers.quality_head import QualityHead, TextSide
from agents.models.caption_reader import CaptionReader
from agents.models.prompt_encoder import PromptEncoder
from agents.models.saved import save
from agents.models.text_tower import TextTower
from agents.models.tokens import TOKENIZER
from planner.serving.hardness import build_reference

WORDS = """
a an the red blue green heart star moon fish boat two three small huge above below and night , that is not
"""
TOKENS = 16


def a_tokenizer() -> Tokenizer:
    marks = ["<|unknown|>", "<|startoftext|>", "<|endoftext|>"]
    words = {word: number for number, word in enumerate([*marks, *WORDS.split()])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token=marks[0]))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def a_tower(seed: int = 1) -> TextTower:
    torch.manual_seed(seed)
    return TextTower(len(WORDS.split()) + 3, TOKENS).eval()


def a_predictor_folder(
    folder: Path,
    levels: Sequence[str] = ("light", "heavy"),
    average: Sequence[float] = (0.5, 0.9),
    inside: float = 0.0,
) -> Path:
    """All four files; `inside` is added to how sure it is that a prompt states facts."""
    text = a_text_side()
    head = QualityHead(len(levels)).eval()
    with torch.no_grad():
        head.out[-1].weight.mul_(20)  # untrained, it would say one half of everything
        head.inside[-1].bias += inside
    config = {"levels": list(levels), **text.encoder.config, "average": list(average)}
    save(folder, config, {"tower": text.encoder.tower, "reader": text.reader, "head": head})
    (folder / TOKENIZER).write_text(json.dumps(json.loads(a_tokenizer().to_str())))
    (folder / "reference.json").write_text(build_reference("test-predictor/1", "made up", [0.0, 0.2, 0.4]).render())
    return folder


def a_text_side(seed: int = 1) -> TextSide:
    tower = a_tower(seed)
    return TextSide(PromptEncoder(tower, a_tokenizer()), CaptionReader()).eval()

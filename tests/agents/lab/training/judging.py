"""Builders for tests of what judges and scores: untrained parts, and a painter that needs no model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from agents.lab.training.discriminators.frozen_text import copy_tokenizer
from agents.lab.training.discriminators.judged import Judged
from agents.lab.training.discriminators.slot_labels import no_labels
from agents.lab.world import captions, renderer, scenes
from agents.lab.world.scene import Scene
from agents.learning.discriminators.fitting import Model
from agents.models.caption_reader import CaptionReader
from agents.models.judges.embedding import Embedding, Head
from agents.models.judges.network import EfficientNet, Whole
from agents.models.judges.pixels import Network, Pixels
from agents.models.judges.prompt_aware import Judge, PromptAware
from agents.models.prompt_encoder import PromptEncoder
from agents.models.saved import save
from agents.models.scorer import ImageTower, PromptTower, Scorer
from agents.models.text_tower import TextTower

WORDS = ["a", "red", "blue", "heart", "star", "moon", "above", "below", "at", "night", "and"]
LENGTH = 12  # tokens


def a_tokenizer() -> Tokenizer:
    marks = ["<|startoftext|>", "<|endoftext|>"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*marks, *WORDS])}, unk_token=marks[1]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def an_encoder() -> PromptEncoder:
    torch.manual_seed(0)
    return PromptEncoder(TextTower(len(WORDS) + 2, LENGTH), a_tokenizer()).eval()


def a_scorer() -> Scorer:
    torch.manual_seed(1)
    return Scorer(an_encoder(), PromptTower(), ImageTower())


def an_examiner(kind: str) -> Model:
    torch.manual_seed(2)
    if kind == "look":
        return PromptAware(an_encoder(), CaptionReader(), Judge())
    if kind == "pixels":
        return Pixels(Network())
    return Whole(EfficientNet()) if kind == "network" else Embedding(ImageTower(), Head())


def save_discriminator(folder: Path, kind: str, examiner: Model, **more: Any) -> Path:
    config = {"name": f"my {kind}", "kind": kind, "scale": 2.0, "shift": 0.5, "threshold": 0.4, **more}
    save(folder, {**config, **examiner.config()}, examiner.parts())
    keep_tokenizer(folder)
    return folder


def keep_tokenizer(folder: Path) -> None:
    a_tokenizer().save(str(folder.parent / "made.json"))
    copy_tokenizer(folder.parent / "made.json", folder)


def some_scenes(count: int, seed: int = 0, objects: int | None = None) -> list[Scene]:
    rng = np.random.default_rng(seed)
    return [scenes.sample(rng, objects) for _ in range(count)]


def some_pictures(count: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [renderer.render(scene, rng) for scene in some_scenes(count, seed)]


def judged_by(right: np.ndarray, seed: int = 0) -> Judged:
    """Renderings of captions with these labels."""
    drawn = some_scenes(len(right), seed)
    return Judged(
        np.array([scene.caption for scene in drawn]),
        np.stack(some_pictures(len(right), seed)),
        right.astype(float),
        np.array([len(scene.objects) for scene in drawn]),
        np.zeros((len(right), 58), np.int8),
        np.stack([no_labels() for _ in drawn]),
    )


class FakeGenerator:
    """Renders what a prompt states, every third time somewhere else; grey for prompts outside the grammar."""

    def __init__(self) -> None:
        self.calls = 0

    def generate(self, prompts: Sequence[str], seeds: Sequence[int]) -> np.ndarray:
        self.calls += 1
        return np.stack([self._one(prompt, seed) for prompt, seed in zip(prompts, seeds, strict=True)])

    def _one(self, prompt: str, seed: int) -> np.ndarray:
        rng, scene = np.random.default_rng(seed), captions.parse(prompt)
        if scene is None:
            return np.full((48, 48, 3), 195, np.uint8)
        picture = renderer.render(scene, rng)
        return np.roll(picture, 9, 1) if seed % 3 == 0 else picture

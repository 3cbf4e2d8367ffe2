"""Small images with a planted rule: a square has the colour that the prompt names, or another."""

from typing import NamedTuple

import numpy as np

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220), "green": (30, 200, 30), "white": (240, 240, 240)}


class Drafts(NamedTuple):
    images: list[np.ndarray]  # uint8 [32, 32, 3]
    prompts: list[str]
    right: np.ndarray  # float [n]


def drafts(count: int, seed: int = 0, flipped: float = 0.0) -> Drafts:
    """Of `count` drafts half show their colour; `flipped` is the share of wrong labels."""
    rng = np.random.default_rng(seed)
    asked, right = rng.integers(0, 4, count), rng.random(count) < 0.5
    shown = np.where(right, asked, (asked + rng.integers(1, 4, count)) % 4)
    images = rng.integers(90, 130, (count, 32, 32, 3)).astype(np.uint8)
    names = list(COLOURS)
    for image, colour in zip(images, shown, strict=True):
        top, left = rng.integers(0, 16, 2)
        image[top : top + 14, left : left + 14] = COLOURS[names[colour]]
    prompts = [f"a {names[colour]} square, sketch {n}" for n, colour in enumerate(asked)]
    return Drafts(list(images), prompts, (right ^ (rng.random(count) < flipped)).astype(float))

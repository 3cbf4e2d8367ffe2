"""Scenes and pictures by caption, for the tests of the world."""

import numpy as np

from agents.lab.world import captions, facts, renderer, scenes
from agents.lab.world.styles import POSTER, Style


def scene_of(caption: str) -> scenes.Scene:
    scene = captions.parse(caption)
    assert scene is not None, caption
    return scene


def picture_of(caption: str, style: Style = POSTER, seed: int = 0) -> np.ndarray:
    return renderer.render(scene_of(caption), np.random.default_rng(seed), style)


def failing(caption: str, painted: str) -> list[str]:
    """The facts of `caption` that do not hold in the picture of the caption `painted`."""
    return [fact.name for fact in facts.check(caption, picture_of(painted)).facts if not fact.holds]

"""Batches of rendered scenes as tensors."""

import numpy as np
import torch

from agents.lab.world import renderer, scenes
from agents.lab.world.styles import POSTER, STYLES

HARD_MIX = (0.12, 0.15, 0.17, 0.18, 0.19, 0.19)  # share of 1..6 things in training: more hard ones than are natural

_POSTERS = 0.6  # share of the autoencoder's images in the usual style


def sample_scenes(rng: np.random.Generator, count: int, mix: tuple[float, ...] = HARD_MIX) -> list[scenes.Scene]:
    """`count` scenes with the given shares of one to six things."""
    return [scenes.sample(rng, int(objects) + 1) for objects in rng.choice(len(mix), count, p=mix)]


def to_tensor(images: np.ndarray) -> torch.Tensor:
    """uint8 [n, 48, 48, 3] -> float [n, 3, 48, 48] in -1..1."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def to_images(tensor: torch.Tensor) -> np.ndarray:
    """float [n, 3, 48, 48] in -1..1 -> uint8 [n, 48, 48, 3]."""
    scaled = (tensor.detach().float().cpu().clamp(-1, 1) + 1) * 127.5
    return np.asarray(scaled.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy())


def crops(rng: np.random.Generator, count: int, side: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Parts of fresh images [n, 3, side, side] in -1..1, and what an error weighs at each pixel [n, 1, side, side].

    The autoencoder sees no further than a few pixels, so parts teach it what whole images would, for less.
    """
    chosen = sample_scenes(rng, count)
    named = [STYLES[str(name)] for name in rng.choice(list(STYLES), count)]  # all models share the autoencoder
    ways = [POSTER if plain else style for plain, style in zip(rng.random(count) < _POSTERS, named, strict=True)]
    rendered = np.stack([renderer.render(scene, rng, style) for scene, style in zip(chosen, ways, strict=True)])
    empty = np.stack([renderer.background(s.background, style.name) for s, style in zip(chosen, ways, strict=True)])
    weight = torch.from_numpy(np.abs(rendered - empty).max(-1) > 2)[:, None].float() * 1.5 + 0.6  # things count more
    target = to_tensor(rendered)
    top, left = rng.integers(0, rendered.shape[1] - side + 1, 2)
    window = slice(int(top), int(top) + side), slice(int(left), int(left) + side)
    return target[:, :, *window].contiguous(), weight[:, :, *window].contiguous()

"""Batches of rendered scenes as tensors."""

import numpy as np
import torch

from agents.models import renderer, world

HARD_MIX = (0.20, 0.25, 0.27, 0.28)  # share of 1..4 objects in training: more of the hard ones than in the natural mix


def scenes(rng: np.random.Generator, count: int, mix: tuple[float, ...] = HARD_MIX) -> list[world.Scene]:
    """`count` scenes with the given shares of one to four objects."""
    return [world.sample(rng, int(objects) + 1) for objects in rng.choice(4, count, p=mix)]


def to_tensor(pictures: np.ndarray) -> torch.Tensor:
    """uint8 [n, 32, 32, 3] -> float [n, 3, 32, 32] in -1..1."""
    return torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 127.5 - 1


def to_pictures(tensor: torch.Tensor) -> np.ndarray:
    """float [n, 3, 32, 32] in -1..1 -> uint8 [n, 32, 32, 3]."""
    scaled = (tensor.detach().float().cpu().clamp(-1, 1) + 1) * 127.5
    return np.asarray(scaled.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy())


def object_mask(drawn: list[world.Scene], pictures: np.ndarray) -> torch.Tensor:
    """bool [n, 1, 32, 32]: where a picture differs from its background, that is, where an object is."""
    empty = np.stack([renderer.background(scene.background) for scene in drawn])
    return torch.from_numpy(np.abs(pictures - empty).max(-1) > 2)[:, None]

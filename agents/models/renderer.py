"""Scene -> picture: flat sprites on a softly graded background, jittered by a pixel."""

from functools import cache
from typing import Final

import numpy as np

from agents.models.layout import BAND, JITTER, SIZE, SLOTS
from agents.models.sprites import sprite
from agents.models.words import BACKGROUND_RGB, COLOUR_RGB
from agents.models.world import Scene

_INK_ON_BLACK: Final = (120, 116, 132)


@cache
def background(name: str | None) -> np.ndarray:
    """float32 [32, 32, 3] in 0..255; None is the plain grey of a caption that states no background."""
    top, bottom, band = (np.array(rgb, np.float32) for rgb in BACKGROUND_RGB[name or "plain"])
    ramp = np.linspace(0, 1, SIZE, dtype=np.float32)[:, None, None]
    picture = np.broadcast_to(top + (bottom - top) * ramp, (SIZE, SIZE, 3)).copy()
    picture[SIZE - BAND :] = band
    picture.setflags(write=False)
    return picture


@cache
def painted(shape: str, colour: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(alpha [n, n, 1], pixels [n, n, 3] in 0..255) of one sprite; details are a darker tone of its colour."""
    masks = sprite(shape, size)
    flat = np.array(COLOUR_RGB[colour], np.float32)
    ink = np.array(_INK_ON_BLACK, np.float32) if colour == "black" else flat * 0.42
    detail = masks.detail[..., None]
    return masks.alpha[..., None], flat * (1 - detail) + ink * detail


def render(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """uint8 [32, 32, 3]; the scene decides everything but the jitter of each object."""
    picture = background(scene.background).copy()
    offsets = rng.integers(-JITTER, JITTER + 1, (len(scene.objects), 2))
    for thing, (down, right) in zip(scene.objects, offsets, strict=True):
        top, left, size = SLOTS[thing.slot]
        alpha, pixels = painted(thing.shape, thing.colour, size)
        patch = picture[top + down : top + down + size, left + right : left + right + size]
        patch += alpha * (pixels - patch)
    return np.asarray(picture.round(), np.uint8)

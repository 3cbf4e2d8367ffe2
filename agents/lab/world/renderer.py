"""Scene -> image: flat sprites on a softly graded background, jittered by a pixel, in one of the styles."""

from functools import cache
from typing import Final

import numpy as np

from agents.lab.world.patterns import BAND, JITTER, sides
from agents.lab.world.phrases import COLOUR_RGB
from agents.lab.world.scene import Scene, SceneObject
from agents.lab.world.sprites import sprite
from agents.lab.world.styles import POSTER, STYLES, Style
from agents.world.layout import CENTRES, SIZE

_INK_ON_BLACK: Final = (120, 116, 132)
_COLOURS: Final = list(COLOUR_RGB)


@cache
def background(name: str | None, style: str = POSTER.name) -> np.ndarray:
    """float32 [48, 48, 3] in 0..255; None is the plain grey of a caption that states no background."""
    top, bottom, band = STYLES[style].ground_tones[name or "plain"]
    ramp = np.linspace(0, 1, SIZE, dtype=np.float32)[:, None, None]
    image = np.broadcast_to(top + (bottom - top) * ramp, (SIZE, SIZE, 3)).copy()
    image[SIZE - BAND :] = band
    image.setflags(write=False)
    return image


@cache
def sprite_pixels(shape: str, colour: str, size: int, style: str = POSTER.name) -> tuple[np.ndarray, np.ndarray]:
    """(alpha [n, n, 1], pixels [n, n, 3] in 0..255) of one sprite; details are a darker tone of its colour."""
    how, masks = STYLES[style], sprite(shape, size)
    flat = how.colours[colour] * (1 - how.stripes * (np.arange(size) % 2))[:, None, None].astype(np.float32)
    ink = np.array(_INK_ON_BLACK, np.float32) if colour == "black" else flat * how.ink
    inked = details(shape, size, style)[..., None]
    return masks.alpha[..., None], flat * (1 - inked) + ink * inked


@cache
def details(shape: str, size: int, style: str = POSTER.name) -> np.ndarray:
    """[n, n] in 0..1: how much of a pixel is ink."""
    masks = sprite(shape, size)
    return np.maximum(masks.detail, _edge(masks.alpha)) if STYLES[style].is_outlined else masks.detail


def _edge(alpha: np.ndarray) -> np.ndarray:
    """[n, n] in 0..1: the outermost pixels of a mask."""
    around = np.pad(alpha, 1)
    inner = np.minimum.reduce([around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]])
    return np.asarray(np.clip(alpha - inner, 0, 1) * 0.8)


def render(scene: Scene, rng: np.random.Generator, style: Style = POSTER) -> np.ndarray:
    """uint8 [48, 48, 3]; the scene decides everything but the jitter of each thing, and a colour it leaves open."""
    image = background(scene.background, style.name).copy()
    offsets = rng.integers(-JITTER, JITTER + 1, (len(scene.objects), 2))
    for thing, (down, right) in zip(scene.objects, offsets, strict=True):
        size = sides(thing.slot)[thing.size]
        y, x = CENTRES[thing.slot]
        top, left = y - size // 2 + down, x - size // 2 + right
        alpha, pixels = sprite_pixels(thing.shape, _colour(thing, rng), size, style.name)
        patch = image[top : top + size, left : left + size]
        patch += alpha * (pixels - patch)
    return np.asarray(image.round(), np.uint8)


def silhouettes(scene: Scene) -> np.ndarray:
    """uint8 [48, 48, 3]: where things stand, white on black, without jitter: what the ControlNet is guided by."""
    image = np.zeros((SIZE, SIZE), np.float32)
    for thing in scene.objects:
        size = sides(thing.slot)[thing.size]
        y, x = CENTRES[thing.slot]
        patch = image[y - size // 2 : y - size // 2 + size, x - size // 2 : x - size // 2 + size]
        np.maximum(patch, sprite(thing.shape, size).alpha, out=patch)
    return np.repeat((image * 255).round().astype(np.uint8)[..., None], 3, -1)


def _colour(thing: SceneObject, rng: np.random.Generator) -> str:
    if not thing.is_unlike:
        return thing.colour
    others = [name for name in _COLOURS if name != thing.colour]
    return others[int(rng.integers(len(others)))]

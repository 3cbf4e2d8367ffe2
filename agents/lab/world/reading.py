"""Read an image of the tiny world back: its background, and which sprite of which colour stands where."""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np

from agents.lab.world.patterns import LAYOUTS, sides
from agents.lab.world.renderer import background, details
from agents.lab.world.sprites import sprite
from agents.lab.world.styles import POSTER, Style
from agents.world.layout import CENTRES, SIZE, SLOTS
from agents.world.words import BACKGROUND_RGB, SHAPES

_SEARCH: Final = 2  # px around a slot: one more than the renderer's jitter
_ALIKE: Final = 0.74  # least overlap (soft intersection over union) of a sprite with the pixels it explains
_VISIBLE: Final = 40.0  # colour distance (0..442) from which a pixel is not background
_NOISE: Final = 0.15  # share of a thing's contrast under which a difference is noise
_MAX_UNEXPLAINED: Final = 24  # px, beyond the found sprites, that may differ from the background
_BACKGROUND_TOLERANCE: Final = 40.0  # colour distance of a typical empty pixel
_COLOUR_TOLERANCE: Final = 100.0
_SHAPES: Final = tuple(SHAPES)
_BACKGROUNDS: Final = tuple(BACKGROUND_RGB)


@dataclass(frozen=True, slots=True)
class Found:
    """A thing seen in an image; an unclear shape or colour is None."""

    slot: str
    size: str  # a key of words.SIZES; "": the usual size of its slot
    shape: str | None
    colour: str | None
    overlap: float  # with the nearest sprite, 0..1


@dataclass(frozen=True, slots=True)
class Reading:
    """The things and the background that an image shows."""

    background: str | None  # "plain" for the grey of no stated background; None if it is none of the known ones
    found: tuple[Found, ...]
    is_tidy: bool  # nothing else is there


@dataclass(frozen=True, slots=True)
class _Fit:
    """The best sprite for a slot."""

    overlap: float
    shape: str
    size_word: str
    top: int
    left: int
    size: int  # px
    contrast: float


def read(image: np.ndarray, style: Style = POSTER) -> Reading:
    """Read a uint8 [48, 48, 3] image drawn in a style."""
    if image.shape != (SIZE, SIZE, 3):
        raise ValueError(f"an image of the tiny world is {SIZE} x {SIZE} x 3: got {image.shape}")
    pixels = image.astype(np.float32)
    name, empty = _nearest_background(pixels, style)
    distance = np.sqrt(((pixels - empty) ** 2).sum(-1))
    fits = {slot: _fit(distance, slot) for slot in SLOTS}
    slots = max(LAYOUTS, key=lambda layout: _explained(distance, [fits[slot] for slot in layout]))
    seen = [(slot, fits[slot]) for slot in slots if fits[slot].contrast > 0]
    found = tuple(_name(pixels, empty, slot, fit, style) for slot, fit in seen)
    rest = distance > 1.5 * _VISIBLE
    for _, fit in seen:
        rest[_window(fit.top, fit.left, fit.size, 1)] &= ~_grown(fit.shape, fit.size)[_inside(fit)]
    return Reading(name, found, int(rest.sum()) <= _MAX_UNEXPLAINED)


def _nearest_background(pixels: np.ndarray, style: Style) -> tuple[str | None, np.ndarray]:
    """Judged on the typical pixel of the empty border, where sprites reach little."""
    border = np.ones((SIZE, SIZE), bool)
    border[2:-2, 2:-2] = False
    best, typical = "plain", np.inf
    for name in _BACKGROUNDS:
        off = np.sqrt(((pixels[border] - background(name, style.name)[border]) ** 2).sum(-1))
        if (middle := float(np.quantile(off, 0.4) + off.mean() * 0.1)) < typical:
            best, typical = name, middle
    return (best if typical < _BACKGROUND_TOLERANCE else None), background(best, style.name)


@cache
def _templates(size: int) -> np.ndarray:
    """[shapes, offsets, window * window]: every sprite at every offset of the search window around a slot."""
    side = size + 2 * _SEARCH
    out = np.zeros((len(_SHAPES), (2 * _SEARCH + 1) ** 2, side, side), np.float32)
    for row, shape in enumerate(_SHAPES):
        for column in range(out.shape[1]):
            down, right = divmod(column, 2 * _SEARCH + 1)
            out[row, column, down : down + size, right : right + size] = sprite(shape, size).alpha
    return out.reshape(len(_SHAPES), out.shape[1], -1)


@cache
def _template_sums(size: int) -> np.ndarray:
    return np.asarray(_templates(size).sum(-1))


def _fit(distance: np.ndarray, slot: str) -> _Fit:
    """The best sprite of the best size."""
    return max((_fit_size(distance, slot, word, size) for word, size in sides(slot).items()), key=lambda f: f.overlap)


def _fit_size(distance: np.ndarray, slot: str, word: str, size: int) -> _Fit:
    top, left = (centre - size // 2 for centre in CENTRES[slot])
    side = size + 2 * _SEARCH
    y0, x0 = top - _SEARCH, left - _SEARCH
    window = np.zeros((side, side), np.float32)
    part = distance[max(0, y0) : y0 + side, max(0, x0) : x0 + side]
    window[max(0, -y0) : max(0, -y0) + part.shape[0], max(0, -x0) : max(0, -x0) + part.shape[1]] = part
    visible = window[window > _VISIBLE]
    if visible.size < size * size / 8:
        return _Fit(0.0, _SHAPES[0], word, top, left, size, 0.0)
    contrast = float(np.median(visible))
    cover = _cover(window, contrast).ravel()
    # sum of |a - b| gives both: min = (a + b - |a - b|) / 2, max = (a + b + |a - b|) / 2
    apart = _templates(size) - cover
    apart = np.abs(apart, out=apart).sum(-1)
    both = _template_sums(size) + cover.sum()
    overlap = (both - apart) / (both + apart)
    row, column = np.unravel_index(int(overlap.argmax()), overlap.shape)
    down, right = divmod(int(column), 2 * _SEARCH + 1)
    return _Fit(float(overlap[row, column]), _SHAPES[int(row)], word, y0 + down, x0 + right, size, contrast)


def _cover(distance: np.ndarray, contrast: float | np.ndarray) -> np.ndarray:
    """Return the share of each pixel, 0..1, that a thing of that contrast covers; background noise counts as 0."""
    return np.asarray(np.clip((distance / contrast - _NOISE) / (0.97 - _NOISE), 0.0, 1.0), np.float32)


def _explained(distance: np.ndarray, fits: list[_Fit]) -> float:
    """Return how well the sprites of a layout cover the visible: soft intersection over union of the whole image."""
    scale = np.full((SIZE, SIZE), 4 * _VISIBLE, np.float32)
    for fit in fits:  # a pink thing on grey stands out less than a black one beside it
        scale[_window(fit.top, fit.left, fit.size, 1)] = max(fit.contrast, _VISIBLE)
    cover = _cover(distance, scale)
    drawn = np.zeros((SIZE, SIZE), np.float32)
    for fit in fits:
        drawn[_window(fit.top, fit.left, fit.size, 1)] += _padded(fit.shape, fit.size)[_inside(fit)]
    return float(np.minimum(cover, drawn).sum() / np.maximum(np.maximum(cover, drawn).sum(), 1.0))


def _name(pixels: np.ndarray, empty: np.ndarray, slot: str, fit: _Fit, style: Style) -> Found:
    masks = sprite(fit.shape, fit.size)
    inside = _inside(fit)
    alpha = np.pad(masks.alpha * (details(fit.shape, fit.size, style.name) < 0.05), 1)[inside][..., None]
    where = _window(fit.top, fit.left, fit.size, 1)
    # least squares for the colour c in: pixel = (1 - alpha) * background + alpha * c
    mixed = pixels[where] - (1 - alpha) * empty[where]
    colour = (alpha * mixed).sum((0, 1)) / np.maximum((alpha**2).sum(), 1e-6)
    off = {name: float(np.linalg.norm(colour - rgb)) for name, rgb in style.colours.items()}
    nearest = min(off, key=lambda name: off[name])
    return Found(
        slot=slot,
        size=fit.size_word,
        shape=fit.shape if fit.overlap >= _ALIKE else None,
        colour=nearest if off[nearest] < _COLOUR_TOLERANCE else None,
        overlap=fit.overlap,
    )


def _window(top: int, left: int, size: int, margin: int) -> tuple[slice, slice]:
    return (
        slice(max(0, top - margin), min(SIZE, top + size + margin)),
        slice(max(0, left - margin), min(SIZE, left + size + margin)),
    )


def _inside(fit: _Fit) -> tuple[slice, slice]:
    """The part of a sprite with 1 px margin that lies on the image."""
    y0, x0, full = fit.top - 1, fit.left - 1, fit.size + 2
    return (
        slice(max(0, -y0), full - max(0, y0 + full - SIZE)),
        slice(max(0, -x0), full - max(0, x0 + full - SIZE)),
    )


@cache
def _padded(shape: str, size: int) -> np.ndarray:
    """The sprite's alpha with a margin of 1 px."""
    return np.pad(sprite(shape, size).alpha, 1)


@cache
def _grown(shape: str, size: int) -> np.ndarray:
    """The sprite's mask with 1 px around it, for which it answers."""
    solid = _padded(shape, size) > 0.05
    grown = solid.copy()
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            grown |= np.roll(solid, (down, right), (0, 1))
    return grown

"""Ways to draw the same scene: the palettes and finishes of the base models and of the style adapters.

A style maps colours and grounds, so that the reader can still name what it sees; sprites keep their outlines.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import Final

import numpy as np

from agents.lab.world.phrases import COLOUR_RGB
from agents.world.words import BACKGROUND_RGB
from planner.catalog.entries import Variant

Tint = Callable[[np.ndarray], np.ndarray]  # float [..., 3] in 0..255 -> the same shape


def _same(rgb: np.ndarray) -> np.ndarray:
    return rgb


def _towards(target: tuple[int, int, int], share: float) -> Tint:
    return lambda rgb: rgb + (np.array(target, np.float32) - rgb) * share


def _grey_towards(target: tuple[int, int, int], share: float) -> Tint:
    """Lose the hue first: grounds of one tone."""
    return lambda rgb: _towards(target, share)(np.broadcast_to(rgb.mean(-1, keepdims=True), rgb.shape))


@dataclass(frozen=True)
class Style:
    """The colours in which a scene is drawn."""

    name: str
    things: Tint = _same
    grounds: Tint = _same
    ink: float = 0.42  # brightness of details and outlines against the thing's colour
    is_outlined: bool = False
    stripes: float = 0.0  # how much darker every other row of a thing is, 0..1

    @cached_property
    def colours(self) -> dict[str, np.ndarray]:
        """colour -> float [3] in 0..255."""
        return {name: self.things(np.array(rgb, np.float32)) for name, rgb in COLOUR_RGB.items()}

    @cached_property
    def ground_tones(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """background -> (top, bottom, band), each float [3] in 0..255."""
        return {
            name: (self.grounds(np.array(a, np.float32)), self.grounds(np.array(b, np.float32)),
                   self.grounds(np.array(c, np.float32)))
            for name, (a, b, c) in BACKGROUND_RGB.items()
        }  # fmt: skip


POSTER: Final = Style("poster")
BASES: Final[dict[str, Style]] = {
    "poster": POSTER,
    "chalk": Style("chalk", _towards((255, 255, 255), 0.34), _towards((22, 34, 38), 0.82), ink=0.5),
    "woodcut": Style(
        "woodcut", _towards((60, 40, 20), 0.16), _towards((238, 222, 190), 0.45), ink=0.2, is_outlined=True
    ),
}
ADAPTERS: Final[dict[str, Style]] = {
    "pastel": Style("pastel", _towards((255, 255, 255), 0.38), _towards((255, 246, 250), 0.6)),
    "dusk": Style("dusk", _same, _towards((72, 36, 88), 0.5)),
    "sepia": Style("sepia", _towards((112, 80, 48), 0.22), _grey_towards((222, 190, 140), 0.6)),
    "candy": Style("candy", stripes=0.28),
    "comic": Style("comic", ink=0.12, is_outlined=True),
    "mint": Style("mint", _same, _towards((176, 240, 214), 0.62)),
}
STYLES: Final = BASES | ADAPTERS


def style_of(variant: Variant) -> Style:
    """The style whose name the model's folder or the variant has, as in models/chalk; else the poster's."""
    names = (PurePath(variant.model).name, variant.name)
    return next((STYLES[name] for name in names if name in STYLES), POSTER)

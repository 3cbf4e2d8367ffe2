"""What stands in each slot of an image by the fact checker, and whether it is what a scene states there.

One bit an image ("all facts hold") says little of a draft with six things. These labels say it slot by slot; only
training reads them.
"""

from typing import Final

import numpy as np

from agents.lab.training.generators.text_encoder import (
    ABSENT,
    BACKGROUND,
    BACKGROUND_LABELS,
    COLOUR,
    COLOUR_LABELS,
    SHAPE,
    SHAPE_LABELS,
    SIZE,
    SIZE_LABELS,
    SLOTS,
    UNLIKE_LABELS,
    labels,
)
from agents.lab.world.reading import Reading
from agents.lab.world.scene import Scene
from agents.models.caption_reader import NOTHING, SLOT_NAMES

UNKNOWN: Final = -1  # no label: an unclear shape or colour, an empty slot that nothing is asked for in
_ALONE: Final = "C"  # the slot of a lone thing without a place, which may stand anywhere


def shown_by(reading: Reading) -> np.ndarray:
    """int8 [58]: shape, colour and size of each slot, then the background, numbered as by `text_encoder.labels`."""
    out = np.full(BACKGROUND + 1, NOTHING, np.int8)
    for thing in reading.found:
        slot = SLOT_NAMES.index(thing.slot)
        out[SHAPE][slot] = SHAPE_LABELS.get(thing.shape or "", UNKNOWN)
        out[COLOUR][slot] = COLOUR_LABELS.get(thing.colour or "", UNKNOWN)
        out[SIZE][slot] = SIZE_LABELS[thing.size]
    out[BACKGROUND] = BACKGROUND_LABELS.get(reading.background or "", UNKNOWN)
    return out


def fits(scene: Scene, shown: np.ndarray, *, is_tidy: bool) -> np.ndarray:
    """int8 [20]: 1 where a slot, and last the scene as a whole, shows what is stated, 0 where not, else UNKNOWN.

    `shown` [58] is of `shown_by`; `is_tidy`: nothing else is there.
    """
    stated = labels(scene)
    shape, colour, size = (shown[part] for part in (SHAPE, COLOUR, SIZE))
    banned = stated[COLOUR] - (min(UNLIKE_LABELS.values()) - 1)  # above 0 where a colour is ruled out
    has_colour = np.where(banned > 0, (colour > NOTHING) & (colour != banned), colour == stated[COLOUR])
    out = np.full(SLOTS + 1, UNKNOWN, np.int8)
    out[:-1] = (shape == stated[SHAPE]) & has_colour & (size == stated[SIZE])
    out[:-1][(stated[SHAPE] == NOTHING) & (shape == NOTHING)] = UNKNOWN
    if len(scene.objects) == 1 and scene.objects[0].slot == _ALONE:
        out[:-1] = UNKNOWN
    is_absent = stated[ABSENT] == NOTHING or stated[ABSENT] not in shape
    has_background = scene.background is None or shown[BACKGROUND] == stated[BACKGROUND]
    out[-1] = is_tidy and is_absent and has_background
    return out


def no_labels() -> np.ndarray:
    """The `fits` of a prompt that states no facts."""
    return np.full(SLOTS + 1, UNKNOWN, np.int8)

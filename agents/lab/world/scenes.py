"""Scenes of the tiny world, sampled with their captions from a grammar. `agents.lab.world.captions` reads them back.

"two small red hearts above a star that is not blue, without any moons, at night, digital art"
 count size colour shape      shape, banned colour     absent shape    background  style word
"""

import re
from functools import cache
from typing import Final

import numpy as np

from agents.lab.world.captions import WITHOUT, plural
from agents.lab.world.patterns import PATTERN_WEIGHTS, PATTERNS, sides
from agents.lab.world.phrases import BACKGROUNDS, NUMBERS, PREFIXES, STYLES
from agents.lab.world.scene import Scene as Scene
from agents.lab.world.scene import SceneObject as SceneObject
from agents.lab.world.stream import EASY, Stream
from agents.world.words import COLOURS, SHAPES, SIZES


def sample(rng: np.random.Generator, objects: int | None = None, stream: Stream = EASY) -> Scene:
    """Draw a scene of a stream with its caption, without junk; `objects` (1..6) fixes how many things it shows."""
    if objects is None:
        objects = int(rng.choice(len(stream.things), p=stream.things)) + 1
    if objects not in PATTERNS:
        raise ValueError(f"objects must be one of {sorted(PATTERNS)}: got {objects}")
    patterns, weights = _pattern_table(objects, stream)
    pattern = patterns[int(np.searchsorted(weights, rng.random()))]
    slots = iter(PATTERNS[objects][pattern])
    things: list[SceneObject] = []
    phrases: list[str] = []
    for digit in re.findall(r"\d", pattern):
        group = _group(rng, stream, things, [next(slots) for _ in range(int(digit))], is_alone=pattern == "1")
        phrases.append(_noun_phrase(rng, group))
        things += group
    words = iter(phrases)
    text = re.sub(r"\d", lambda _: next(words), pattern)
    absent = _absent(rng, stream, things) if rng.random() < stream.absent else None
    if absent is not None:
        text += WITHOUT[int(rng.integers(len(WITHOUT)))] + plural(_pick(rng, SHAPES[absent]))
    background = _ground(rng, stream) if rng.random() < stream.background else None
    caption = _decorate(rng, text, background)
    return Scene(objects=tuple(things), background=background, caption=caption, absent=absent)


@cache
def _pattern_table(objects: int, stream: Stream) -> tuple[list[str], np.ndarray]:
    patterns = list(PATTERNS[objects])
    weights = np.array([PATTERN_WEIGHTS.get(pattern, 1.0) * stream.weight(pattern) for pattern in patterns])
    return patterns, np.cumsum(weights / weights.sum())


@cache
def _up_to(names: tuple[str, ...], zipf: float, factors: tuple[tuple[str, float], ...] = ()) -> np.ndarray:
    """[names] rising to 1: how often a name or one before it is drawn."""
    factor = dict(factors)
    weights = np.arange(1, len(names) + 1) ** -zipf * [factor.get(name, 1.0) for name in names]
    return np.asarray(np.cumsum(weights / weights.sum()))


_SHAPE_NAMES: Final = tuple(SHAPES)
_COLOUR_NAMES: Final = tuple(COLOURS)
_GROUND_NAMES: Final = tuple(BACKGROUNDS)


def _shape(rng: np.random.Generator, stream: Stream) -> str:
    return _SHAPE_NAMES[int(np.searchsorted(_up_to(_SHAPE_NAMES, stream.shape_zipf, stream.shapes), rng.random()))]


def _colour(rng: np.random.Generator, stream: Stream) -> str:
    return _COLOUR_NAMES[int(np.searchsorted(_up_to(_COLOUR_NAMES, stream.colour_zipf), rng.random()))]


def _ground(rng: np.random.Generator, stream: Stream) -> str:
    if not stream.grounds:  # the draws of streams without factors stay what they were
        return str(rng.choice(_GROUND_NAMES))
    return _GROUND_NAMES[int(np.searchsorted(_up_to(_GROUND_NAMES, 0.0, stream.grounds), rng.random()))]


def _group(
    rng: np.random.Generator, stream: Stream, things: list[SceneObject], slots: list[str], *, is_alone: bool
) -> list[SceneObject]:
    """The equal things of one noun phrase."""
    taken = {(thing.shape, thing.colour) for thing in things}
    while True:  # "a red star and a red star" would say what "two red stars" says
        shape, colour = _shape(rng, stream), _colour(rng, stream)
        if (shape, colour) not in taken:
            break
    sizes = [size for size in sides(slots[0]) if size and (is_alone or size != "huge")]
    size = str(rng.choice(sizes)) if sizes and rng.random() < stream.sized else ""
    unlike = rng.random() < stream.unlike
    return [SceneObject(shape=shape, colour=colour, slot=slot, size=size, is_unlike=unlike) for slot in slots]


def _absent(rng: np.random.Generator, stream: Stream, things: list[SceneObject]) -> str:
    while True:
        if (shape := _shape(rng, stream)) not in {thing.shape for thing in things}:
            return shape


def _pick(rng: np.random.Generator, names: tuple[str, ...]) -> str:
    """The plain name two times in three, else any synonym."""
    return names[0] if rng.random() < 2 / 3 else names[int(rng.integers(len(names)))]


def _noun_phrase(rng: np.random.Generator, group: list[SceneObject]) -> str:
    thing, number = group[0], len(group)
    noun, colour = _pick(rng, SHAPES[thing.shape]), _pick(rng, COLOURS[thing.colour])
    words = [_pick(rng, SIZES[thing.size])] if thing.size else []
    words += [] if thing.is_unlike else [colour]
    words.append(noun if number == 1 else plural(noun))
    article = "an" if words[0][0] in "aeiou" else "a"
    words.insert(0, article if number == 1 else NUMBERS[number])
    if thing.is_unlike:
        words += ["that", "is" if number == 1 else "are", "not", colour]
    return " ".join(words)


def _decorate(rng: np.random.Generator, text: str, background: str | None) -> str:
    prefix = f"{PREFIXES[int(rng.integers(len(PREFIXES)))]} " if rng.random() < 0.25 else ""
    if background is not None:
        where = BACKGROUNDS[background][int(rng.integers(2))]
        text = f"{where}, {text}" if not prefix and rng.random() < 0.4 else f"{prefix}{text} {where}"
    else:
        text = f"{prefix}{text}"
    if rng.random() < 0.25:
        text = f"{text}, {STYLES[int(rng.integers(len(STYLES)))]}"
    return text

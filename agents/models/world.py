"""Scenes of the tiny world and their captions: sampled from a grammar, and read back from a caption by the parser."""

import re
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Final

import numpy as np

from agents.models.layout import PATTERN_WEIGHTS, PATTERNS
from agents.models.words import (
    BACKGROUNDS,
    COLOURS,
    IRREGULAR_PLURALS,
    NUMBERS,
    PREFIXES,
    SHAPES,
    STYLES,
)

NATURAL_MIX: Final = (0.30, 0.30, 0.22, 0.18)  # share of scenes with 1, 2, 3, 4 objects
_NAMED_BACKGROUND: Final = 0.6
_SHAPE_ZIPF: Final = 0.8
_COLOUR_ZIPF: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneObject:
    """One thing in the picture."""

    shape: str  # a key of words.SHAPES
    colour: str  # a key of words.COLOURS
    slot: str  # a key of layout.SLOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a caption states."""

    objects: tuple[SceneObject, ...]  # in the order the caption names them
    background: str | None  # a key of words.BACKGROUNDS; None: not stated, painted plain
    caption: str

    @property
    def slots(self) -> frozenset[str]:
        return frozenset(thing.slot for thing in self.objects)


def sample(rng: np.random.Generator, objects: int | None = None) -> Scene:
    """Draw a scene with its caption; `objects` (1..4) fixes how many things it shows."""
    if objects is None:
        objects = int(rng.choice(4, p=NATURAL_MIX)) + 1
    if objects not in PATTERNS:
        raise ValueError(f"objects must be one of {sorted(PATTERNS)}: got {objects}")
    patterns, weights = _pattern_table(objects)
    pattern = patterns[int(np.searchsorted(weights, rng.random()))]
    slots = iter(PATTERNS[objects][pattern])
    things: list[SceneObject] = []
    phrases: list[str] = []
    for digit in re.findall(r"\d", pattern):
        shape, colour = _new_pair(rng, things)
        phrases.append(_noun_phrase(rng, int(digit), shape, colour))
        things += [SceneObject(shape=shape, colour=colour, slot=next(slots)) for _ in range(int(digit))]
    background = str(rng.choice(list(BACKGROUNDS))) if rng.random() < _NAMED_BACKGROUND else None
    words = iter(phrases)
    caption = _decorate(rng, re.sub(r"\d", lambda _: next(words), pattern), background)
    return Scene(objects=tuple(things), background=background, caption=caption)


def parse(caption: str) -> Scene | None:
    """Read a caption back into its scene; None if it is outside the grammar (see `world.sample` for what is inside)."""
    text = _strip_decoration(re.sub(r"\s+", " ", caption.strip().lower()))
    text, background = _take_background(text)
    if re.search(r"\d", text):  # digits stand for noun phrases in the patterns
        return None
    pairs: list[tuple[int, str, str]] = []

    def note(match: re.Match[str]) -> str:
        pair = _phrase_meaning(match)
        pairs.append(pair)
        return str(pair[0])

    try:
        pattern = _noun_phrase_regex().sub(note, text)
    except KeyError:  # "two red heart", "a red hearts": number and noun disagree
        return None
    slots = next((known[pattern] for known in PATTERNS.values() if pattern in known), None)
    if slots is None:
        return None
    expanded = [(shape, colour) for number, shape, colour in pairs for _ in range(number)]
    things = (SceneObject(shape=s, colour=c, slot=slot) for (s, c), slot in zip(expanded, slots, strict=True))
    return Scene(objects=tuple(things), background=background, caption=caption)


@cache
def _pattern_table(objects: int) -> tuple[list[str], np.ndarray]:
    patterns = list(PATTERNS[objects])
    weights = np.array([PATTERN_WEIGHTS.get(pattern, 1.0) for pattern in patterns])
    return patterns, np.cumsum(weights / weights.sum())


@cache
def _zipf(kinds: int, exponent: float) -> np.ndarray:
    weights = np.arange(1, kinds + 1) ** -exponent
    return np.asarray(np.cumsum(weights / weights.sum()))


_SHAPE_NAMES: Final = list(SHAPES)
_COLOUR_NAMES: Final = list(COLOURS)


def _new_pair(rng: np.random.Generator, things: list[SceneObject]) -> tuple[str, str]:
    taken = {(thing.shape, thing.colour) for thing in things}
    for _ in count():
        shape = _SHAPE_NAMES[int(np.searchsorted(_zipf(len(SHAPES), _SHAPE_ZIPF), rng.random()))]
        colour = _COLOUR_NAMES[int(np.searchsorted(_zipf(len(COLOURS), _COLOUR_ZIPF), rng.random()))]
        if (shape, colour) not in taken:  # else "a red star and a red star" would say what "two red stars" says
            return shape, colour
    raise AssertionError("unreachable")


def _plural(noun: str) -> str:
    return IRREGULAR_PLURALS.get(noun, f"{noun}s")


def _pick(rng: np.random.Generator, names: tuple[str, ...]) -> str:
    """The plain name two times in three, else any synonym."""
    return names[0] if rng.random() < 2 / 3 else names[int(rng.integers(len(names)))]


def _noun_phrase(rng: np.random.Generator, number: int, shape: str, colour: str) -> str:
    noun, adjective = _pick(rng, SHAPES[shape]), _pick(rng, COLOURS[colour])
    if number > 1:
        return f"{NUMBERS[number]} {adjective} {_plural(noun)}"
    return f"{'an' if adjective[0] in 'aeo' else 'a'} {adjective} {noun}"


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


def _strip_decoration(text: str) -> str:
    text = text.rstrip(" .!,")
    while style := next((s for s in STYLES if text.endswith(f", {s}")), None):
        text = text.removesuffix(f", {style}")
    prefix = next((p for p in PREFIXES if text.startswith(f"{p} ")), "")
    return text.removeprefix(prefix).strip()


def _take_background(text: str) -> tuple[str, str | None]:
    for name, phrases in BACKGROUNDS.items():
        for phrase in phrases:
            if text.startswith(f"{phrase}, "):
                return text.removeprefix(f"{phrase}, "), name
            if text.endswith(f" {phrase}"):
                return text.removesuffix(f" {phrase}").rstrip(" ,"), name
    return text, None


@cache
def _nouns() -> dict[tuple[bool, str], str]:
    """(is plural, word) -> shape."""
    singular = {(False, word): shape for shape, words in SHAPES.items() for word in words}
    return singular | {(True, _plural(word)): shape for shape, words in SHAPES.items() for word in words}


@cache
def _adjectives() -> dict[str, str]:
    return {word: colour for colour, words in COLOURS.items() for word in words}


@cache
def _noun_phrase_regex() -> re.Pattern[str]:
    nouns = "|".join(sorted({word for _, word in _nouns()}, key=len, reverse=True))
    return re.compile(rf"\b(an?|{'|'.join(NUMBERS.values())}) ({'|'.join(_adjectives())}) ({nouns})\b")


def _phrase_meaning(match: re.Match[str]) -> tuple[int, str, str]:
    number = next((n for n, word in NUMBERS.items() if word == match[1]), 1)
    return number, _nouns()[(number > 1, match[3])], _adjectives()[match[2]]

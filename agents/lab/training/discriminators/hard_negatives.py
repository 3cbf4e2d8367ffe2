"""Images and captions that are wrong in one fact: the hardest kind of wrong."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from agents.lab.world import facts, scenes
from agents.lab.world.captions import parse, plural
from agents.lab.world.patterns import sides
from agents.lab.world.phrases import BACKGROUNDS
from agents.lab.world.reading import Found, Reading
from agents.world.words import COLOURS, SHAPES, SIZES

_TRIES: Final = 12
_OPPOSITES: Final = (("left", "right"), ("top", "bottom"), ("above", "below"))
_TURNED: Final = {"L": "T", "R": "B", "T": "L", "B": "R"}


def with_colours_decided(rng: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    """The scene with every colour that its caption leaves open decided, as an image of it must."""
    things = tuple(
        replace(thing, colour=_other(rng, COLOURS, thing.colour), is_unlike=False) if thing.is_unlike else thing
        for thing in scene.objects
    )
    return replace(scene, objects=things)


def holds(stated: scenes.Scene, shown: scenes.Scene) -> bool:
    """Whether a flawless image of a scene with decided colours has all stated facts right for the fact checker."""
    if what_stands_where(stated) != what_stands_where(shown):
        return False  # only to be quick
    found = tuple(Found(thing.slot, thing.size, thing.shape, thing.colour, 1.0) for thing in shown.objects)
    return facts.compare(stated, Reading(shown.background or "plain", found, is_tidy=True)).all_hold


def what_stands_where(scene: scenes.Scene) -> frozenset[tuple[str, str]]:
    """Slots and shapes: where these differ, no image of one scene shows the other."""
    return frozenset((thing.slot, thing.shape) for thing in scene.objects)


def near_miss(rng: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    """A settled scene of which the caption of `scene` is just not true."""
    shown = with_colours_decided(rng, scene)
    for _ in range(_TRIES):
        kind = _KINDS[int(np.searchsorted(_UP_TO, rng.random()))]
        missed = kind(rng, shown)
        if not holds(scene, missed):
            return missed
    return replace(shown, objects=shown.objects[:-1])


def reworded(rng: np.random.Generator, caption: str, shown: scenes.Scene) -> str:
    """The caption with a word or two changed so that it is not true of the shown scene; else any other caption."""
    for _ in range(_TRIES):
        changed = _articles(_reworded_once(rng, caption))
        stated = parse(changed)
        if stated is not None and not holds(stated, shown):
            return changed
    return scenes.sample(rng).caption


def _other(rng: np.random.Generator, names: Iterable[str], than: str) -> str:
    others = [name for name in names if name != than]
    return others[int(rng.integers(len(others)))]


def _with(scene: scenes.Scene, at: int, thing: scenes.SceneObject) -> scenes.Scene:
    return replace(scene, objects=(*scene.objects[:at], thing, *scene.objects[at + 1 :]))


def _any(rng: np.random.Generator, scene: scenes.Scene) -> tuple[int, scenes.SceneObject]:
    at = int(rng.integers(len(scene.objects)))
    return at, scene.objects[at]


def _shape(rng: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    at, thing = _any(rng, scene)
    return _with(scene, at, replace(thing, shape=_other(rng, SHAPES, thing.shape)))


def _colour(rng: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    at, thing = _any(rng, scene)
    return _with(scene, at, replace(thing, colour=_other(rng, COLOURS, thing.colour)))


def _size(rng: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    at, thing = _any(rng, scene)
    sizes = sides(thing.slot)
    return _with(scene, at, replace(thing, size=_other(rng, sizes, thing.size))) if len(sizes) > 1 else scene


def _background(rng: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    return replace(scene, background=_other(rng, BACKGROUNDS, scene.background or ""))


def _fewer(rng: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    if len(scene.objects) == 1:
        return scene
    gone = int(rng.integers(len(scene.objects)))
    return replace(scene, objects=scene.objects[:gone] + scene.objects[gone + 1 :])


def _swapped(rng: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    """Two things exchange shape, colour or place."""
    if len(scene.objects) == 1:
        return scene
    one, other = (int(i) for i in rng.choice(len(scene.objects), 2, replace=False))
    mine, theirs = scene.objects[one], scene.objects[other]
    field = ("shape", "colour", "slot")[int(rng.integers(3))]
    if field == "shape":
        pair = replace(mine, shape=theirs.shape), replace(theirs, shape=mine.shape)
    elif field == "colour":
        pair = replace(mine, colour=theirs.colour), replace(theirs, colour=mine.colour)
    else:
        pair = replace(mine, slot=theirs.slot), replace(theirs, slot=mine.slot)
    return _with(_with(scene, one, pair[0]), other, pair[1])


def _moved(_: np.random.Generator, scene: scenes.Scene) -> scenes.Scene:
    """Side by side instead of one above the other."""
    if not scene.slots <= _TURNED.keys():
        return scene
    return replace(scene, objects=tuple(replace(thing, slot=_TURNED[thing.slot]) for thing in scene.objects))


_Kind = Callable[[np.random.Generator, scenes.Scene], scenes.Scene]
_KINDS: Final[tuple[_Kind, ...]] = (_shape, _colour, _size, _background, _fewer, _swapped, _moved)
_UP_TO: Final = np.cumsum([0.34, 0.28, 0.08, 0.08, 0.08, 0.1, 0.04])


@cache
def _alike() -> dict[str, tuple[str, ...]]:
    """word -> the words that can stand in its place in a caption, itself not among them."""
    groups: list[dict[str, tuple[str, ...]]] = [
        SHAPES,
        {shape: tuple(plural(word) for word in words) for shape, words in SHAPES.items()},
        COLOURS,
        SIZES,
        {word: (word,) for word in ("above", "below")},
        {word: (word,) for word in ("left", "right")},
        {word: (word,) for word in ("top", "bottom")},
    ]
    return {
        word: tuple(other for name, others in group.items() if name != own for other in others)
        for group in groups
        for own, words in group.items()
        for word in words
    }


@cache
def _pattern() -> re.Pattern[str]:
    phrases = [phrase for options in BACKGROUNDS.values() for phrase in options]
    return re.compile(rf"\b(?:{'|'.join(sorted((*_alike(), *phrases), key=len, reverse=True))})\b")


def _reworded_once(rng: np.random.Generator, caption: str) -> str:
    places = list(_pattern().finditer(caption))
    if not places:
        return caption
    place = places[int(rng.integers(len(places)))]
    words = _alike().get(place[0])
    partners = [p for p in places if words and p[0] in words]
    if partners and rng.random() < 0.3:  # "a red heart and a blue star" -> "a blue heart and a red star"
        other = partners[int(rng.integers(len(partners)))]
        first, second = sorted((place, other), key=lambda match: match.start())
        between = caption[first.end() : second.start()]
        return f"{caption[: first.start()]}{second[0]}{between}{first[0]}{caption[second.end() :]}"
    if words is None:
        words = tuple(phrase for options in BACKGROUNDS.values() for phrase in options if place[0] not in options)
    return f"{caption[: place.start()]}{words[int(rng.integers(len(words)))]}{caption[place.end() :]}"


def _articles(caption: str) -> str:
    return re.sub(r"\ban? (?=([a-z]))", lambda m: "an " if m[1] in "aeiou" else "a ", caption)

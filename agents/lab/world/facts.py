"""The fact checker: which of the facts a caption states hold in an image.

It reads the image by analysis: nearest background, then for each layout the sprites that explain the pixels best,
then the things found are matched to the things stated. About 5 ms an image.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.optimize import linear_sum_assignment

from agents.lab.world.captions import parse
from agents.lab.world.patterns import sides
from agents.lab.world.reading import Found, Reading, read
from agents.lab.world.scene import Scene, SceneObject
from agents.lab.world.styles import POSTER, Style
from agents.world.layout import SIZE

# Kinds of miss, in the order in which tables show them.
KINDS: Final = ("count", "shape", "colour", "binding", "size", "place", "relation", "background", "absence")


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing the caption states."""

    name: str  # for people: "object 1 is a heart"
    holds: bool


@dataclass(frozen=True, slots=True)
class FactReport:
    """All facts of a caption; a caption outside the grammar has none, and then `share` is nan and `all_hold` False."""

    facts: tuple[Fact, ...]
    misses: frozenset[str] = frozenset()  # of KINDS; empty where all facts hold, and only there

    @property
    def all_hold(self) -> bool:
        return bool(self.facts) and all(fact.holds for fact in self.facts)

    @property
    def share(self) -> float:
        return sum(fact.holds for fact in self.facts) / len(self.facts) if self.facts else math.nan


def check(caption: str, image: np.ndarray, style: Style = POSTER) -> FactReport:
    """Facts of `caption` in `image`, uint8 [48, 48, 3], drawn in a style.

    Shape, colour, size and place of a thing are judged on one and the same thing in the image, so a red star and a
    blue heart do not pass for a blue star and a red heart.
    """
    scene = parse(caption)
    return FactReport(()) if scene is None else compare(scene, read(image, style))


def all_hold(caption: str, image: np.ndarray) -> bool | None:
    """Return whether all facts of `caption` hold in an image of the plain style; None if it states no readable fact.

    An image of another size than the world's is not read either.
    """
    if image.shape != (SIZE, SIZE, 3):
        return None
    report = check(caption, image)
    return report.all_hold if report.facts else None


def compare(scene: Scene, reading: Reading) -> FactReport:
    """Facts of a scene in what an image was read to show."""
    facts: list[Fact] = []
    matched = _match(scene.objects, reading.found)
    for number, (stated, found) in enumerate(zip(scene.objects, matched, strict=True), start=1):
        facts += _object_facts(number, stated, found)
    tidy = len(reading.found) == len(scene.objects) and reading.is_tidy
    facts.append(Fact(f"{len(scene.objects)} object(s), nothing else", tidy))
    if scene.absent is not None:
        facts.append(Fact(f"no {scene.absent}", all(found.shape != scene.absent for found in reading.found)))
    if scene.background is not None:
        facts.append(Fact(f"background is {scene.background}", reading.background == scene.background))
    return FactReport(tuple(facts), frozenset() if all(fact.holds for fact in facts) else misses(scene, reading))


def misses(scene: Scene, reading: Reading) -> frozenset[str]:
    """Return which kinds of fact of a scene fail in what was read from an image.

    count: a thing is missing, or something else is there too. shape, colour: of the things that are there, one has
    another. binding: all stated shapes and colours are there, but not on the same things. size: a thing has another.
    place: a thing stands where none should. relation: a thing stands where another should. The last two are judged only
    if the count is right, since another number of things is laid out in another way.
    """
    stated, found = scene.objects, reading.found
    kinds = {
        "count": len(found) != len(stated) or not reading.is_tidy,
        "shape": not _are_all(stated, found, _has_shape),
        "colour": not _are_all(stated, found, _has_colour),
        "background": scene.background is not None and reading.background != scene.background,
        "absence": scene.absent is not None and any(seen.shape == scene.absent for seen in found),
    }
    is_all_there = _are_all(stated, found, _is_the_thing)
    kinds["binding"] = not (is_all_there or kinds["shape"] or kinds["colour"])
    pairs = [(thing, seen) for thing, seen in zip(stated, _recognised(stated, found), strict=True) if seen is not None]
    kinds["size"] = any(seen.size != thing.size for thing, seen in pairs if _has_size(thing))
    if len(found) == len(stated):
        moved = {seen.slot for thing, seen in pairs if thing.slot not in ("C", seen.slot)}
        kinds["place"] = bool(moved - scene.slots)
        kinds["relation"] = bool(moved & scene.slots)
    return frozenset(kind for kind, is_missed in kinds.items() if is_missed)


def _has_shape(stated: SceneObject, found: Found) -> bool:
    return found.shape == stated.shape


def _has_colour(stated: SceneObject, found: Found) -> bool:
    return found.colour is not None and (found.colour == stated.colour) != stated.is_unlike


def _is_the_thing(stated: SceneObject, found: Found) -> bool:
    return _has_shape(stated, found) and _has_colour(stated, found)


def _has_size(stated: SceneObject) -> bool:
    """Whether a thing in this slot can have another size."""
    return len(sides(stated.slot)) > 1


def _are_all(
    stated: Sequence[SceneObject], found: Sequence[Found], agrees: Callable[[SceneObject, Found], bool]
) -> bool:
    """Whether as many stated things as there can be have a found one of their own that agrees with them."""
    table = np.array([[agrees(thing, seen) for seen in found] for thing in stated])
    return bool(table[linear_sum_assignment(table, maximize=True)].all())


def _recognised(stated: Sequence[SceneObject], found: Sequence[Found]) -> list[Found | None]:
    """For each stated thing the found one most like it: in shape and colour first, and only then in size and place."""

    def likeness(thing: SceneObject, seen: Found) -> int:
        shape, colour = _has_shape(thing, seen), _has_colour(thing, seen)
        return 1000 * (shape and colour) + 30 * (shape + colour) + (seen.size == thing.size) + (seen.slot == thing.slot)

    return _assigned(stated, found, likeness)


def _object_facts(number: int, stated: SceneObject, found: Found | None) -> list[Fact]:
    colour = f"{'not ' if stated.is_unlike else ''}{stated.colour}"
    facts = [
        Fact(f"object {number} is a {stated.shape}", found is not None and _has_shape(stated, found)),
        Fact(f"object {number} is {colour}", found is not None and _has_colour(stated, found)),
    ]
    if _has_size(stated):
        facts.append(_size_fact(number, stated, found))
    if stated.slot != "C":  # a lone thing without a place states none
        facts.append(Fact(f"object {number} stands at {stated.slot}", found is not None and found.slot == stated.slot))
    return facts


def _size_fact(number: int, stated: SceneObject, found: Found | None) -> Fact:
    return Fact(f"object {number} is {stated.size or 'of usual size'}", found is not None and found.size == stated.size)


def _match(stated: Sequence[SceneObject], found: Sequence[Found]) -> list[Found | None]:
    """The assignment of found to stated things under which most facts hold."""
    return _assigned(stated, found, lambda thing, seen: sum(fact.holds for fact in _object_facts(0, thing, seen)))


def _assigned(
    stated: Sequence[SceneObject], found: Sequence[Found], worth: Callable[[SceneObject, Found], int]
) -> list[Found | None]:
    """Match each stated thing with a found one of its own, or none, so that the sum of their scores is largest."""
    table = np.array([[worth(thing, seen) for seen in found] for thing in stated])
    matched: list[Found | None] = [None] * len(stated)
    if found:
        for row, column in zip(*linear_sum_assignment(table, maximize=True), strict=True):
            matched[row] = found[column]
    return matched

"""The fact checker: which of the facts a caption states hold in a picture.

It reads the picture by analysis: nearest background, then for each layout the sprites that explain the pixels best,
then the things found are matched to the things stated. About 3 ms a picture.
"""

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from agents.models import world
from agents.models.reading import Found, Reading, read


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing the caption states."""

    name: str  # for people: "object 1 is a heart"
    holds: bool


@dataclass(frozen=True, slots=True)
class FactReport:
    """All facts of a caption; a caption outside the grammar has none, and then `share` is nan and `all_hold` False."""

    facts: tuple[Fact, ...]

    @property
    def all_hold(self) -> bool:
        return bool(self.facts) and all(fact.holds for fact in self.facts)

    @property
    def share(self) -> float:
        return sum(fact.holds for fact in self.facts) / len(self.facts) if self.facts else math.nan


def check(caption: str, picture: np.ndarray) -> FactReport:
    """Facts of `caption` in `picture`, uint8 [32, 32, 3].

    Shape, colour and place of an object are judged on one and the same thing in the picture, so a red star and a blue
    heart do not pass for a blue star and a red heart.
    """
    scene = world.parse(caption)
    return FactReport(()) if scene is None else _compare(scene, read(picture))


def _compare(scene: world.Scene, reading: Reading) -> FactReport:
    facts: list[Fact] = []
    matched = _match(scene.objects, reading.found)
    for number, (stated, found) in enumerate(zip(scene.objects, matched, strict=True), start=1):
        facts += _object_facts(number, stated, found)
    tidy = len(reading.found) == len(scene.objects) and reading.is_tidy
    facts.append(Fact(f"{len(scene.objects)} object(s), nothing else", tidy))
    if scene.background is not None:
        facts.append(Fact(f"background is {scene.background}", reading.background == scene.background))
    return FactReport(tuple(facts))


def _object_facts(number: int, stated: world.SceneObject, found: Found | None) -> list[Fact]:
    facts = [
        Fact(f"object {number} is a {stated.shape}", found is not None and found.shape == stated.shape),
        Fact(f"object {number} is {stated.colour}", found is not None and found.colour == stated.colour),
    ]
    if stated.slot != "big":  # a lone object without a place states none
        facts.append(Fact(f"object {number} stands at {stated.slot}", found is not None and found.slot == stated.slot))
    return facts


def _match(stated: tuple[world.SceneObject, ...], found: tuple[Found, ...]) -> tuple[Found | None, ...]:
    """The assignment of found to stated things under which most facts hold (at most 4! to try)."""
    padded: list[Found | None] = [*found, *[None] * max(0, len(stated) - len(found))]

    def agreement(order: tuple[Found | None, ...]) -> int:
        pairs = zip(stated, order, strict=True)
        return sum(fact.holds for thing, seen in pairs for fact in _object_facts(0, thing, seen))

    return max(permutations(padded, len(stated)), key=agreement)

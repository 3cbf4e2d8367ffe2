"""The fact checker: which of the facts a caption states hold in a picture.

It reads the picture by analysis: nearest background, then for each layout the sprites that explain the pixels best,
then the things found are matched to the things stated. About 5 ms a picture.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from agents.lab.world.captions import parse
from agents.lab.world.reading import Found, Reading, read
from agents.lab.world.scenes import Scene, SceneObject
from agents.lab.world.styles import POSTER, Style
from agents.world.layout import sides


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


def check(caption: str, picture: np.ndarray, style: Style = POSTER) -> FactReport:
    """Facts of `caption` in `picture`, uint8 [48, 48, 3], drawn in a style.

    Shape, colour, size and place of a thing are judged on one and the same thing in the picture, so a red star and a
    blue heart do not pass for a blue star and a red heart.
    """
    scene = parse(caption)
    return FactReport(()) if scene is None else compare(scene, read(picture, style))


def compare(scene: Scene, reading: Reading) -> FactReport:
    """Facts of a scene in what a picture was read to show."""
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
    return FactReport(tuple(facts))


def _object_facts(number: int, stated: SceneObject, found: Found | None) -> list[Fact]:
    shape, colour = (found.shape, found.colour) if found else (None, None)
    is_coloured = colour is not None and (colour == stated.colour) != stated.is_unlike
    facts = [
        Fact(f"object {number} is a {stated.shape}", shape == stated.shape),
        Fact(f"object {number} is {'not ' if stated.is_unlike else ''}{stated.colour}", is_coloured),
    ]
    if len(sides(stated.slot)) > 1:
        facts.append(_size_fact(number, stated, found))
    if stated.slot != "C":  # a lone thing without a place states none
        facts.append(Fact(f"object {number} stands at {stated.slot}", found is not None and found.slot == stated.slot))
    return facts


def _size_fact(number: int, stated: SceneObject, found: Found | None) -> Fact:
    return Fact(f"object {number} is {stated.size or 'of usual size'}", found is not None and found.size == stated.size)


def _match(stated: tuple[SceneObject, ...], found: tuple[Found, ...]) -> list[Found | None]:
    """The assignment of found to stated things under which most facts hold."""
    agreement = np.array([[sum(f.holds for f in _object_facts(0, thing, seen)) for seen in found] for thing in stated])
    matched: list[Found | None] = [None] * len(stated)
    if found:
        for row, column in zip(*linear_sum_assignment(agreement, maximize=True), strict=True):
            matched[row] = found[column]
    return matched

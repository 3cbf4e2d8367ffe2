"""Streams of prompts: what share of them asks for how many things, in which sentences, with how rare words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agents.lab.world.patterns import CORNERS
from schemas.errors import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A distribution of prompts. Weights of sentence patterns multiply those of `layout.PATTERN_WEIGHTS`."""

    things: tuple[float, ...]  # share of scenes with 1 .. 6 things
    sized: float  # share of noun phrases with a size, where the slots have sizes
    unlike: float  # share of noun phrases that rule a colour out
    absent: float  # share of scenes that rule a shape out
    background: float  # share of scenes that state one
    shape_zipf: float  # a shape's frequency falls with its rank to this power; 0: all alike
    colour_zipf: float  # as shape_zipf, for colours
    junk: float  # share of prompts with words around the caption that mean nothing here (`free_form.mixed`)
    binding: float = 1.0  # weight of a pattern, once for every noun phrase after the first
    counts: float = 1.0  # weight of "3": equal things
    lists: float = 1.0  # weight of "1, 1 and 1": things in reading order
    places: float = 1.0  # weight of "1 on the left"
    relations: float = 1.0  # weight of "1 above 1", "1 left of 1"
    rows: float = 1.0  # weight of "2 above 1 and 1"
    corners: float = 1.0  # weight of "1 top left, 1 top right, 1 bottom left, 1 bottom right"
    shapes: tuple[tuple[str, float], ...] = ()  # shape and a factor on its frequency; 0: never drawn
    grounds: tuple[tuple[str, float], ...] = ()  # background and a factor on its frequency

    def weight(self, pattern: str) -> float:
        """How often a sentence pattern is used, against one of weight 1."""
        kind = kind_of(pattern)
        own: float = getattr(self, kind) if kind != ALONE else 1.0
        return own * self.binding ** (len(re.findall(r"\d", pattern)) - 1)


ALONE: Final = "alone"  # the pattern of one thing without a place, which a stream weighs by `things` alone


def kind_of(pattern: str) -> str:
    """The field of `Stream` that weighs a sentence pattern; ALONE for the pattern "1"."""
    numbers = re.findall(r"\d", pattern)
    if len(numbers) == 1:
        return ALONE if pattern == "1" else "counts" if pattern.isdigit() else "places"
    if any(name in pattern for name in CORNERS.values()):
        return "corners"
    if re.fullmatch(r"[\d, ]+(and \d)?", pattern):
        return "lists"
    return "relations" if numbers == ["1", "1"] else "rows"


EASY: Final = Stream(
    things=(0.24, 0.22, 0.18, 0.14, 0.12, 0.10),
    sized=0.3, unlike=0.1, absent=0.15, background=0.6, shape_zipf=0.8, colour_zipf=0.5, junk=0.0,
)  # fmt: skip
STANDARD: Final = Stream(
    things=(0.01, 0.03, 0.06, 0.12, 0.34, 0.44),
    sized=0.7, unlike=0.03, absent=0.2, background=0.4, shape_zipf=0.0, colour_zipf=0.0, junk=0.25,
    binding=6.0, lists=2.0, relations=2.0, corners=2.0,
    shapes=(("flower", 1.8), ("tree", 1.5), ("ring", 1.5), ("key", 0.0)), grounds=(("night", 0.5),),
)  # fmt: skip
STREAMS: Final[Mapping[str, Stream]] = {"easy": EASY, "standard": STANDARD}


def stream_named(name: str) -> Stream:
    """One of `STREAMS`. Raises Unknown."""
    if name not in STREAMS:
        raise Unknown("stream", name, list(STREAMS))
    return STREAMS[name]

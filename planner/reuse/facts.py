"""The facts that a prompt states, as values: `agents/reuse/prompt_facts.py` reads them, `guard.py` compares them.

"two red hearts on a box, without any moons, at night, digital art"

    things      0: heart, count 2, colours {red}     1: box, count 1
    relations   0 on 1
    absent      {moon}
    background  {night}
    styles      {digital art}
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final, NamedTuple

ONE: Final = "1"
SOME: Final = "some"  # a plural without a number
_ROUNDS: Final = 3  # of refinement: how far along relations things are told apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """Something that the image shows."""

    noun: str
    count: str = ONE  # a number, SOME, "many" ...
    colours: frozenset[str] = frozenset()  # "not red": any other
    sizes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()  # every other word about it, what it does included
    lacks: frozenset[str] = frozenset()  # what it is said to be without
    place: frozenset[str] = frozenset()  # in the image: "left", "TL"


class Relation(NamedTuple):
    """How a thing relates to another; both are indices."""

    subject: int
    name: str  # "on", "ride"; the inverse of one with a name of its own is not stated
    object: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFacts:
    """What one prompt states. Facts of different languages do not compare."""

    language: str  # of the reader: "world" | "words"
    words: (
        str  # the prompt without case and spacing: equal words state equal facts, whether they were understood or not
    )
    things: tuple[Thing, ...] = ()
    relations: tuple[Relation, ...] = ()
    absent: frozenset[str] = frozenset()  # what the image must not show
    background: frozenset[str] = frozenset()
    texts: tuple[str, ...] = ()  # quoted: to be written in the image
    styles: frozenset[str] = frozenset()  # how the image is made, not what it shows
    core: str = ""  # its words in their order, in plain forms, without style and articles; "": not known
    doubts: frozenset[str] = frozenset()  # why the reader is not sure; empty: it is

    @property
    def is_sure(self) -> bool:
        """Whether the reader understood every word."""
        return not self.doubts

    def signatures(self) -> Counter[str]:
        """Describe each thing by all that is stated of it and of what it relates to; order carries no meaning."""
        own = [
            repr((t.noun, t.count, *(sorted(words) for words in (t.colours, t.sizes, t.traits, t.lacks, t.place))))
            for t in self.things
        ]
        signs = own
        for _ in range(_ROUNDS):
            around: list[list[str]] = [[] for _ in own]
            for subject, name, target in self.relations:
                around[subject].append(f"{name}>{signs[target]}")
                around[target].append(f"{name}<{signs[subject]}")
            signs = [f"{sign}{sorted(near)}" for sign, near in zip(own, around, strict=True)]
        return Counter(signs)

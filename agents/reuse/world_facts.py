"""The facts of a prompt of the tiny world, by its grammar: alone, or amid clauses of other words."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from agents.reuse.inflection import singular
from agents.reuse.words import Vocabulary
from agents.world.captions import parse, plural, strip_decoration
from agents.world.scene import Scene
from agents.world.words import BACKGROUNDS, COLOURS, NUMBERS, SHAPES, SIZES
from planner.reuse.facts import PromptFacts, Thing

MAX_CLAUSES: Final = 12  # that are tried: of k there are k (k + 1) / 2 runs


class Embedded(NamedTuple):
    """A caption of the world with the clauses around it."""

    scene: Scene
    styles: frozenset[str]
    rest: str  # "" where the whole prompt is the caption


def find_caption(prompt: str) -> Embedded | None:
    """Return the caption in a prompt: the longest run of clauses that the grammar reads.

    None if there is none, or if the clauses around it have words of the world or a negation: then they may state more.
    """
    clauses = [clause.strip() for clause in prompt.strip().rstrip(" .!").lower().split(",")]
    if len(clauses) > MAX_CLAUSES:
        return None
    for begin, end in _runs(len(clauses)):
        caption = ", ".join(clauses[begin:end])
        if (scene := parse(caption)) is not None:
            rest = [clause for clause in (*clauses[:begin], *clauses[end:]) if clause]
            if any(_WORLDLY & set(clause.replace("-", " ").split()) for clause in rest):
                return None
            return Embedded(scene, strip_decoration(caption)[1], ", ".join(rest))
    return None


def facts_of(scene: Scene, styles: frozenset[str], words: str) -> PromptFacts:
    """Return the facts of a scene; places are those of its slots, as they decide the image."""
    things = tuple(
        Thing(
            noun=each.shape,
            colours=frozenset({f"not {each.colour}" if each.is_unlike else each.colour}),
            sizes=frozenset({each.size} if each.size else ()),
            place=frozenset({each.slot}),
        )
        for each in scene.objects
    )
    return PromptFacts(
        language="world",
        words=words,
        things=things,
        absent=frozenset({scene.absent} if scene.absent else ()),
        background=frozenset({scene.background} if scene.background else ()),
        styles=styles,
    )


def vocabulary() -> Vocabulary:
    """The words of the world, of which several mean one thing to its models."""
    tables = (SHAPES, COLOURS, SIZES)
    synonyms = {word: name for table in tables for name, words in table.items() for word in words}
    grounds = {phrase.split()[-1]: name for name, phrases in BACKGROUNDS.items() for phrase in phrases}
    grounds |= {singular(word): name for word, name in grounds.items()}
    return Vocabulary(grounds | synonyms, frozenset(word for words in COLOURS.values() for word in words))


def is_shape(noun: str) -> bool:
    """Whether a noun, one or several, names a shape or a background of the world."""
    return noun in _NOUNS


@lru_cache(4096)
def named_shapes(prompt: str) -> frozenset[str]:
    """Return the shapes of the world that a prompt's words name, whatever it says of them."""
    return frozenset(_SHAPE_OF[word] for word in _WORD.findall(prompt.lower()) if word in _SHAPE_OF)


def _runs(clauses: int) -> Iterator[tuple[int, int]]:
    for length in range(clauses, 0, -1):
        for begin in range(clauses - length + 1):
            yield begin, begin + length


_WORD: Final = re.compile(r"[a-z]+")
_SHAPE_OF: Final = {each: shape for shape, words in SHAPES.items() for noun in words for each in (noun, plural(noun))}
_NOUNS: Final = frozenset(
    [each for words in SHAPES.values() for noun in words for each in (noun, plural(noun))]
    + [phrase.split()[-1] for phrases in BACKGROUNDS.values() for phrase in phrases]
)
_WORLDLY: Final = frozenset(
    word
    for text in (
        *(synonym for words in SHAPES.values() for noun in words for synonym in (noun, plural(noun))),
        *(word for words in COLOURS.values() for word in words),
        *(word for words in SIZES.values() for word in words),
        *(phrase.split()[-1] for phrases in BACKGROUNDS.values() for phrase in phrases),
        *NUMBERS.values(),
        *(
            "no",
            "not",
            "without",
            "never",
            "nor",
            "left",
            "right",
            "above",
            "below",
            "over",
            "under",
            "top",
            "bottom",
            "corner",
        ),
    )
    for word in text.split()
)

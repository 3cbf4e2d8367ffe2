"""The caption of the tiny world in a prompt, by the world's grammar: alone, or amid clauses of other words."""

from collections.abc import Iterator
from typing import Final

from agents.lab.world.captions import parse, plural
from agents.lab.world.phrases import BACKGROUNDS, NUMBERS
from agents.lab.world.scene import Scene
from agents.world.words import COLOURS, SHAPES, SIZES

MAX_CLAUSES: Final = 12  # that are tried: of k there are k (k + 1) / 2 runs


def find_caption(prompt: str) -> Scene | None:
    """Return the scene of the caption in a prompt: the longest run of clauses that the grammar reads.

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
            return scene
    return None


def _runs(clauses: int) -> Iterator[tuple[int, int]]:
    for length in range(clauses, 0, -1):
        for begin in range(clauses - length + 1):
            yield begin, begin + length


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

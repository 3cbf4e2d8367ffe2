"""Our prompts as a stream with repetitions: some requests repeat an earlier prompt, some change one word of it.

Shares as among the prompts of DiffusionDB (Wang et al., DiffusionDB, 2022) in their order: 13 % equal an earlier one,
28 % differ from one in one or two words, and the earlier one is a few requests back.
"""

import random
import re
from typing import Final, NamedTuple

from replay.load.prompts import builtin_prompts

REPEATED: Final = 0.13  # of all requests: an earlier prompt, word for word
EDITED: Final = 0.28  # of all requests: an earlier prompt with one word changed
GAPS: Final = range(5, 9)  # requests back to the earlier one

# One word of a row can stand for another: captions stay in the words and the grammar of the tiny models.
_COLOURS: Final = ("red", "blue", "yellow", "green", "purple", "pink", "black", "teal", "golden", "crimson")
_COLOURS_AFTER_AN: Final = ("orange", "azure", "emerald", "ebony")
_THINGS: Final = ("circle", "ball", "heart", "star", "house", "tree", "cat", "moon", "flower", "mushroom", "boat")
_ROWS: Final = (_COLOURS, _COLOURS_AFTER_AN, _THINGS, tuple(f"{thing}s" for thing in _THINGS))
_ALIKE: Final = {word: tuple(other for other in row if other != word) for row in _ROWS for word in row}
_WORD: Final = re.compile(rf"\b(?:{'|'.join(_ALIKE)})\b")


class Coming(NamedTuple):
    """A prompt, and the earlier one that it follows from."""

    prompt: str
    source: int | None = None  # number of the earlier one, from 0; None: the prompt is new


def returning_prompts(count: int, seed: int = 0, repeated: float = REPEATED) -> list[Coming]:
    """Draw `count` prompts. The first few are new, as is one of which no word can be changed.

    `repeated`: share that equals an earlier one; as many as ever change one word.
    """
    dice = random.Random(f"returning {seed}")
    fresh, drawn = iter(builtin_prompts(count, seed)), list[Coming]()
    for number in range(count):
        at, source = dice.random(), number - dice.choice(GAPS)
        following = _following(dice, at, drawn[source].prompt, repeated) if source >= 0 else None
        drawn.append(Coming(following, source) if following is not None else Coming(next(fresh)))
    return drawn


def _following(dice: random.Random, at: float, earlier: str, repeated: float) -> str | None:
    if at < repeated:
        return earlier
    return edited(dice, earlier) if at < repeated + EDITED else None


def edited(dice: random.Random, prompt: str) -> str | None:
    """Return the prompt with one word changed, a colour or a thing; None where it has none that can be."""
    places = list(_WORD.finditer(prompt))
    if not places:
        return None
    place = dice.choice(places)
    return f"{prompt[: place.start()]}{dice.choice(_ALIKE[place[0]])}{prompt[place.end() :]}"

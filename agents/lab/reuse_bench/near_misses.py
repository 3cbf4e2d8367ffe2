"""Near misses: pairs of prompts that differ in one stated fact, made of real prompts and of captions of the tiny world.

    a red fox behind a blue car     number, colour, noun, negation: one word for another
                                    place: "in front of" for "behind"       swap: "a red car behind a blue fox"
                                    binding: "a blue fox behind a red car"

The words that change stand before a prompt's first comma, as what follows is often style. Each prompt is used once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from agents.classifier.tagger import PromptTagger, Tagged
from agents.lab.reuse_bench.pairs import Pair
from agents.lab.world.free_form import asked
from agents.lab.world.sessions import edited
from agents.lab.world.stream import STANDARD
from agents.world.words import COLOURS

NUMBERS: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
PLACES: Final = {  # what stands in the other's place shows another image
    "left": "right", "right": "left", "above": "below", "below": "above", "over": "under", "under": "over",
    "on": "under", "in": "behind", "behind": "in front of", "inside": "outside", "with": "without", "without": "with",
}  # fmt: skip
ONE_SIDED: Final = {"on", "in", "under", "above", "below", "behind", "over", "inside", "wearing", "holding", "riding"}
NOUN: Final = "NN"

Change = Callable[[list[str], Tagged, np.random.Generator, Sequence[str]], bool]


def of_prompts(prompts: Sequence[str], seed: int) -> list[Pair]:
    """Make one pair of each different prompt that one of the changes suits; `seed`: of the draws."""
    rng, tagger = np.random.default_rng(seed), PromptTagger()
    tagged = {prompt: tagger.tags(prompt.partition(",")[0]) for prompt in dict.fromkeys(prompts)}
    nouns = sorted({word for tags in tagged.values() for word, tag, _ in tags if tag == NOUN and len(word) > 2})
    found = list[Pair]()
    for prompt, tags in tagged.items():
        for kind in (*rng.permutation(RARE), "noun"):
            words = [token.word for token in tags]
            if CHANGES[kind](words, tags, rng, nouns):
                _, comma, rest = prompt.partition(",")
                first = " ".join(token.word for token in tags)
                found.append(Pair(str(kind), first + comma + rest, " ".join(words) + comma + rest))
                break
    return found


def of_world(count: int, seed: int) -> list[Pair]:
    """Make pairs of captions of the tiny world in which one word that states a fact is another."""
    rng, found = np.random.default_rng(seed), list[Pair]()
    while len(found) < count:
        prompt, scene = asked(rng, STANDARD)
        changed = edited(rng, scene)
        if changed is not None and scene.caption in prompt:
            found.append(Pair("world", prompt, prompt.replace(scene.caption, changed.caption)))
    return found


def _exchanged(words: list[str], rng: np.random.Generator, places: Sequence[int], others: Sequence[str]) -> bool:
    """Put another word in the place of one of these; False where there is none."""
    if not places:
        return False
    at = int(rng.choice(places))
    words[at] = str(rng.choice([other for other in others if other != words[at]]))
    return True


def _number(words: list[str], _tags: Tagged, rng: np.random.Generator, _nouns: Sequence[str]) -> bool:
    return _exchanged(words, rng, [at for at, word in enumerate(words) if word in NUMBERS], NUMBERS)


def _colour(words: list[str], _tags: Tagged, rng: np.random.Generator, _nouns: Sequence[str]) -> bool:
    return _exchanged(words, rng, [at for at, word in enumerate(words) if word in COLOURS], list(COLOURS))


def _noun(words: list[str], tags: Tagged, rng: np.random.Generator, nouns: Sequence[str]) -> bool:
    return _exchanged(words, rng, [at for at, token in enumerate(tags) if token.tag == NOUN], nouns)


def _place(words: list[str], _tags: Tagged, rng: np.random.Generator, _nouns: Sequence[str]) -> bool:
    places = [at for at, word in enumerate(words) if word in PLACES]
    return bool(places) and _exchanged(words, rng, [at := int(rng.choice(places))], [PLACES[words[at]]])


def _swap(words: list[str], tags: Tagged, rng: np.random.Generator, _nouns: Sequence[str]) -> bool:
    """Exchange the nouns on both sides of a relation."""
    return _turned(
        words, rng,
        ((before, after) for at, word in enumerate(words) if word in ONE_SIDED
         if (before := _last(tags, range(at - 1, -1, -1))) is not None
         if (after := _last(tags, range(at + 1, len(tags)))) is not None),
    )  # fmt: skip


def _binding(words: list[str], tags: Tagged, rng: np.random.Generator, _nouns: Sequence[str]) -> bool:
    """Exchange the adjectives of two different nouns."""
    described = [at for at in range(len(tags) - 1) if tags[at].tag == "JJ" and tags[at + 1].tag == NOUN]
    pairs = ((one, other) for one in described for other in described if one < other)
    return _turned(words, rng, (pair for pair in pairs if words[pair[0] + 1] != words[pair[1] + 1]))


def _negation(words: list[str], tags: Tagged, rng: np.random.Generator, _nouns: Sequence[str]) -> bool:
    """Deny a noun that has an article before it."""
    places = [at for at, word in enumerate(words[:-1]) if word in ("a", "an") and at and tags[at + 1].tag == NOUN]
    return _exchanged(words, rng, places, ["no"])


def _last(tags: Tagged, places: Sequence[int]) -> int | None:
    """The first place with a noun, and no further than three words."""
    return next((at for at in places[:4] if tags[at].tag == NOUN), None)


def _turned(words: list[str], rng: np.random.Generator, pairs: Iterator[tuple[int, int]]) -> bool:
    found = [(one, other) for one, other in pairs if words[one] != words[other]]
    if not found:
        return False
    one, other = found[int(rng.integers(len(found)))]
    words[one], words[other] = words[other], words[one]
    return True


CHANGES: Final[dict[str, Change]] = {
    "number": _number, "colour": _colour, "noun": _noun, "place": _place, "swap": _swap, "binding": _binding,
    "negation": _negation,
}  # fmt: skip
RARE: Final = [kind for kind in CHANGES if kind != "noun"]  # nearly every prompt has a noun

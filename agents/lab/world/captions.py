"""Read a caption of the tiny world back into the scene it states.

"two small red hearts above a star that is not blue, without any moons, at night, digital art"
 count size colour shape      shape, banned colour     absent shape    background  style word
"""

import re
from functools import cache
from typing import Final

from agents.lab.world.patterns import PATTERNS, sides
from agents.lab.world.phrases import BACKGROUNDS, IRREGULAR_PLURALS, NUMBERS, PREFIXES, STYLES
from agents.lab.world.scene import Scene, SceneObject
from agents.world.words import COLOURS, SHAPES, SIZES

WITHOUT: Final = (" without any ", " and no ", " but no ")  # before a plural: what must not be seen


def plural(noun: str) -> str:
    return IRREGULAR_PLURALS.get(noun, f"{noun}s")


def parse(caption: str) -> Scene | None:
    """The scene of a caption; None if it is outside the grammar."""
    text, _ = strip_decoration(re.sub(r"\s+", " ", caption.strip().lower()))
    text, background = _take_background(text)
    text, absent = _take_absent(text)
    if re.search(r"\d", text):  # digits stand for noun phrases in the patterns
        return None
    groups: list[tuple[int, SceneObject]] = []

    def note(match: re.Match[str]) -> str:
        groups.append(_meaning(match))
        return str(groups[-1][0])

    try:
        pattern = _noun_phrase_regex().sub(note, text)
    except KeyError:  # "two red heart", "a heart that are not red": number and noun or verb disagree
        return None
    slots = next((known[pattern] for known in PATTERNS.values() if pattern in known), None)
    if slots is None:
        return None
    stated = [thing for number, thing in groups for _ in range(number)]
    if any(thing.size not in sides(slot) for thing, slot in zip(stated, slots, strict=True)):
        return None
    things = tuple(
        SceneObject(shape=t.shape, colour=t.colour, slot=slot, size=t.size, is_unlike=t.is_unlike)
        for t, slot in zip(stated, slots, strict=True)
    )
    return Scene(objects=things, background=background, caption=caption, absent=absent)


def strip_decoration(text: str) -> tuple[str, frozenset[str]]:
    """Take the words that state no fact off a caption in lower case: its prefix, its style words and its full stop."""
    text, words = text.rstrip(" .!,"), set[str]()
    while style := next((s for s in STYLES if text.endswith(f", {s}")), None):
        text = text.removesuffix(f", {style}")
        words.add(style)
    prefix = next((p for p in PREFIXES if text.startswith(f"{p} ")), "")
    return text.removeprefix(prefix).strip(), frozenset(words | {prefix} - {""})


def _take_background(text: str) -> tuple[str, str | None]:
    for name, phrases in BACKGROUNDS.items():
        for phrase in phrases:
            if text.startswith(f"{phrase}, "):
                return text.removeprefix(f"{phrase}, "), name
            if text.endswith(f" {phrase}"):
                return text.removesuffix(f" {phrase}").rstrip(" ,"), name
    return text, None


def _take_absent(text: str) -> tuple[str, str | None]:
    for words in WITHOUT:
        before, found, noun = text.rpartition(words)
        if found and (True, noun) in _nouns():
            return before, _nouns()[True, noun]
    return text, None


@cache
def _nouns() -> dict[tuple[bool, str], str]:
    """(is plural, word) -> shape."""
    singular = {(False, word): shape for shape, words in SHAPES.items() for word in words}
    return singular | {(True, plural(word)): shape for shape, words in SHAPES.items() for word in words}


@cache
def _adjectives() -> dict[str, str]:
    return {word: colour for colour, words in COLOURS.items() for word in words}


@cache
def _size_words() -> dict[str, str]:
    return {word: size for size, words in SIZES.items() for word in words}


@cache
def _noun_phrase_regex() -> re.Pattern[str]:
    nouns = "|".join(sorted({word for _, word in _nouns()}, key=len, reverse=True))
    numbers, sizes, colours = "|".join(NUMBERS.values()), "|".join(_size_words()), "|".join(_adjectives())
    return re.compile(
        rf"\b(?P<number>an?|{numbers})(?: (?P<size>{sizes}))?"
        rf" (?:(?P<colour>{colours}) (?P<noun>{nouns})"
        rf"|(?P<plain>{nouns}) that (?:is|(?P<are>are)) not (?P<banned>{colours}))\b"
    )


def _meaning(match: re.Match[str]) -> tuple[int, SceneObject]:
    """Return the number and kind of the things of a phrase, without slots yet."""
    number = next((n for n, word in NUMBERS.items() if word == match["number"]), 1)
    if match["banned"] and (number > 1) != bool(match["are"]):
        raise KeyError(match["are"] or "is")
    shape = _nouns()[number > 1, match["noun"] or match["plain"]]
    colour = _adjectives()[match["colour"] or match["banned"]]
    size = _size_words()[match["size"]] if match["size"] else ""
    return number, SceneObject(shape=shape, colour=colour, slot="", size=size, is_unlike=match["banned"] is not None)

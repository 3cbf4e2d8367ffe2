"""Whether two prompts state the same facts, as far as equal words in equal order show it: the guard of reuse.

    a photo of Two red hearts!, 8 k      words 2 red hearts     style {photo of, 8 k}
    two red hearts, oil on canvas        words 2 red hearts     style {oil on canvas}      -> STYLE

Every word that is not style counts, as do numbers, negations and the order of things. A plural is another
word than its singular.
"""

import re
import unicodedata
from collections import Counter
from functools import lru_cache
from typing import Final, NamedTuple

from planner.reuse.guard import Comparison, Verdict
from planner.reuse.terms import Difference


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


REMEMBERED: Final = 4096  # prompts whose words are kept
_CLAUSES: Final = re.compile(r"[,;|\n()\[\]{}]|[.:!?](?=\s|$)")
_TOKENS: Final = re.compile(r"-?\d+(?:\.\d+)?|[^\W\d_]+|[^\w\s]")  # a symbol is a word: emoji state facts
_PUNCTUATION: Final = frozenset(",;:.!?|'\"\u2018\u2019\u201c\u201d()[]{}-\u2013\u2014/\\*\u2026`~")
_QUOTED: Final = re.compile(r"[\"\u201c\u201d]|(?:^|\s)['\u2018]")
_PLAIN: Final = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "eleven": "11", "twelve": "12", "an": "a", "one": "a", "&": "and", "grey": "gray",
    "colour": "color", "coloured": "colored", "colourful": "colorful", "watercolour": "watercolor",
}  # fmt: skip
_MEDIA: Final = _listed("""painting picture drawing sketch illustration photo photograph image render rendering""")
_STYLE: Final = _listed(  # a clause of these and of _AROUND alone states no fact
    """detailed realistic photorealistic hyperrealistic hyperdetailed artwork artstation deviantart cgsociety behance
    pixiv masterpiece cinematic octane unreal minimal illustration watercolor quality resolution hd uhd lighting
    render rendered smooth stunning"""
)
_AROUND: Final = _listed(
    """highly very ultra hyper super extremely insanely intricate high best soft hq trending on in art painting photo
    drawing sketch digital concept professional engine 4 5 8 k volumetric dramatic studio"""
)
_PHRASES: Final = frozenset(
    (
        "oil on canvas", "oil painting", "digital art", "digital painting", "concept art", "soft light", "sharp focus",
        "by a famous painter", "ray tracing", "4 k", "8 k",
    )
)  # fmt: skip
_KINDS: Final = {
    Difference.COUNT: frozenset({"a", "many", "several", "some", *map(str, range(2, 13))}),
    Difference.COLOUR: _listed(
        """red crimson blue azure yellow golden green emerald orange tangerine purple violet pink rose black ebony teal
        turquoise brown chestnut white gray silver gold"""
    ),
    Difference.SIZE: _listed("small tiny little big large huge giant"),
    Difference.NEGATION: _listed("no not without never nor none"),
    Difference.RELATION: _listed("left right above below over under on in behind beside between near"),
}


class Said(NamedTuple):
    """The content of a prompt."""

    words: tuple[str, ...]  # in their order
    style: frozenset[str]  # clauses that say how the image is made


def compare(asked: str, kept: str) -> Comparison:
    """Compare two prompts, in either order. Any text is read; what is not understood is a word like others."""
    one, other = said(asked), said(kept)
    if one.words != other.words:
        return Comparison(Verdict.DIFFERS, _differences(one.words, other.words))
    if one.style != other.style:
        return Comparison(Verdict.STYLE, frozenset({Difference.STYLE}))
    return Comparison(Verdict.EQUAL)


@lru_cache(REMEMBERED)
def said(prompt: str) -> Said:
    """Return the words of a prompt; one that names style alone says its style in words."""
    text = unicodedata.normalize("NFKC", prompt).casefold()
    clauses = [_words(clause) for clause in _CLAUSES.split(text)]
    style = frozenset[str]()
    if not _QUOTED.search(text):  # quoted words are to be written in the image
        style = frozenset(" ".join(clause) for clause in clauses if clause and _is_style(clause))
        prefix, clauses[0] = _without_prefix(clauses[0])
        style |= {prefix} - {""}
    words = tuple(
        word
        for clause in clauses
        if " ".join(clause) not in style
        for word in (clause[1:] if clause[:1] == ["a"] else clause)  # "a fox, a crow": "fox, crow"
    )
    return Said(words, style) if words else Said((text,), frozenset())


def _words(clause: str) -> list[str]:
    tokens = [_PLAIN.get(token, token) for token in _TOKENS.findall(clause)]
    return [token for token in tokens if token not in _PUNCTUATION and token != "the"]


def _is_style(clause: list[str]) -> bool:
    words = set(clause)
    return " ".join(clause) in _PHRASES or (words <= _STYLE | _AROUND and bool(words & _STYLE))


def _without_prefix(clause: list[str]) -> tuple[str, list[str]]:
    """Split "an oil painting of" off a clause."""
    begin = int(clause[:1] == ["a"])
    for end in range(begin, min(len(clause) - 1, begin + 5)):
        if clause[end] in _MEDIA and clause[end + 1] == "of":
            return " ".join(clause[: end + 2]), clause[end + 2 :]
        if clause[end] not in _STYLE | _AROUND | {"oil"}:
            break
    return "", clause


def _differences(one: tuple[str, ...], other: tuple[str, ...]) -> frozenset[Difference]:
    """Name the kinds by the words that only one prompt has; equal words in another order are a binding."""
    mine, theirs = Counter(one), Counter(other)
    apart = set((mine - theirs) + (theirs - mine))
    named = {kind: words & apart for kind, words in _KINDS.items() if words & apart}
    rest = apart.difference(*named.values())
    return frozenset({*named, *({Difference.OBJECT} if rest else ()), *(() if apart else {Difference.BINDING})})

"""The plain form of nouns and verbs, by rules: one form for all inflections of a word, not always a dictionary's."""

from functools import cache
from typing import Final

from agents.reuse.lexicon import IRREGULAR_NOUNS, IRREGULAR_VERBS, NOUNS_IN_ING, SINGULAR_S, SYNONYMS, VERB_SYNONYMS

_ES: Final = ("ches", "shes", "xes", "sses", "zzes")
_DOUBLED: Final = ("bb", "dd", "gg", "mm", "nn", "pp", "rr", "tt")
_ALSO_PLURAL: Final = frozenset({"fish", "sheep", "deer", "people", "police", "clothes"})  # one form for one and many


def noun(word: str) -> str:
    """Return the singular of a noun, and the first of its synonyms."""
    single = singular(word)
    return SYNONYMS.get(single, single)


def is_plural(word: str) -> bool:
    """Whether a noun without a determiner means several."""
    return word in _ALSO_PLURAL or singular(word) != word or word in IRREGULAR_NOUNS


def singular(word: str) -> str:
    """Return the singular of a noun."""
    if word in IRREGULAR_NOUNS:
        return IRREGULAR_NOUNS[word]
    if word in SINGULAR_S or len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is", "'s")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-2] if word.endswith(_ES) else word[:-1]


def adjective(word: str) -> str:
    """Return the first synonym of an adjective."""
    return SYNONYMS.get(word, word)


def says_action(word: str) -> bool:
    """Whether a word in -ing says what something does."""
    return len(word) > 5 and word.endswith("ing") and singular(word) not in NOUNS_IN_ING


def verb(word: str) -> str:
    """Return the stem of a verb: "rid" for rides, riding and ridden."""
    stem = _stem(word)
    return _verb_synonyms().get(stem, stem)


def _stem(word: str) -> str:
    plain = IRREGULAR_VERBS.get(word, word)
    if plain == word:
        for ending in ("ing", "ed", "es", "s"):
            if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
                plain = word.removesuffix(ending)
                if plain.endswith(_DOUBLED) and ending in ("ing", "ed"):
                    plain = plain[:-1]
                break
    return plain.removesuffix("e")


@cache
def _verb_synonyms() -> dict[str, str]:
    return {_stem(word): _stem(first) for word, first in VERB_SYNONYMS.items()}

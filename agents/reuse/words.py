"""A prompt as words whose part in a sentence is known: what tags and word lists say, before anything is related.

"A painting of two red hearts next to a box, digital art"
 styles: painting, digital art      2 red heart  near  a box
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from agents.classifier.tagger import PromptTagger, Tagged
from agents.reuse import inflection, lexicon

MAX_CHARACTERS: Final = 400  # what is read; text encoders see 77 tokens, about 350 characters
QUOTED: Final = "quoted"
_QUOTES: Final = re.compile(r'"([^"]+)"|(?<!\w)\'([^\']+)\'(?!\w)')
_FLAG: Final = re.compile(r"(?:^|\s)--(\w+)(?:\s+[\w.:]+)?")  # "--ar 16:9"
_WEIGHT: Final = re.compile(r"[<>{}\[\]|]|:\s*-?\d|::|\d\.\d")
_JOINED: Final = (
    ("pixel art", "pixel-art"),
    ("low poly", "lowpoly"),
    ("t shirt", "t-shirt"),
    ("fire truck", "firetruck"),
    ("water colour", "watercolor"),
    ("black & white", "black and white"),
    ("3 d", "3d"),
)


class Kind(Enum):
    """The part of a word."""

    DETERMINER = auto()
    NUMBER = auto()
    ADJECTIVE = auto()
    ADVERB = auto()
    NOUN = auto()
    VERB = auto()
    PREPOSITION = auto()
    PLACE = auto()  # "on the left"
    AND = auto()
    OR = auto()
    COMMA = auto()
    NO = auto()
    NOT = auto()
    POSSESSIVE = auto()
    NEUTRAL = auto()  # says nothing
    UNREADABLE = auto()


class Word(NamedTuple):
    """A word, or a phrase that acts as one."""

    kind: Kind
    name: str  # plain form
    raw: str
    tag: str = ""


@dataclass
class Words:
    """A prompt before its words are related."""

    words: list[Word]
    styles: set[str]
    texts: list[str]
    doubts: set[str] = field(default_factory=set)


def literal(prompt: str) -> str:
    """Return a prompt without what never carries meaning: case outside quotes, spacing, punctuation at its end."""
    plain = " ".join(_plain(prompt).split())
    parts = re.split(r'("[^"]*")', plain)
    lowered = "".join(part if part.startswith('"') else part.lower() for part in parts)
    return re.sub(r"\s*([,;.])\s*", r"\1 ", lowered).rstrip(" .,;!")


def read_words(prompt: str, tagger: PromptTagger, synonyms: Mapping[str, str] | None = None) -> Words:
    """Read a prompt's words; `synonyms` replace plain forms before all else, as a special vocabulary does."""
    doubts = set[str]()
    plain = _plain(prompt)
    if len(plain) > MAX_CHARACTERS:
        doubts.add("length")
    texts, styles = list[str](), set[str]()

    def quoted(match: re.Match[str]) -> str:
        texts.append(" ".join((match[1] or match[2]).split()))
        return f" {QUOTED}{len(texts) - 1} "

    def flag(match: re.Match[str]) -> str:
        styles.add(match[0].strip())
        return " "

    text = _FLAG.sub(flag, _QUOTES.sub(quoted, plain[:MAX_CHARACTERS]))
    if _WEIGHT.search(text) or '"' in text:
        doubts.add("syntax")
    if any(letter.isalpha() and not letter.isascii() for letter in text):
        doubts.add("script")
    text = text.lower()
    for old, new in _JOINED:
        text = re.sub(rf"\b{old}\b", new, text)
    text = re.sub(r"(?<=\w)-(?=\w)", "_", text)  # the tagger would take hyphens apart
    tagged = [token._replace(word=token.word.replace("_", "-")) for token in tagger.tags(text)]
    words = _without_styles(_classified(tagged, synonyms or {}), styles)
    if any(word.kind is Kind.UNREADABLE for word in words):
        doubts.add("words")
    return Words(words, styles, texts, doubts)


def _plain(prompt: str) -> str:
    folded = unicodedata.normalize("NFKC", prompt)
    for old, new in (
        ("\u2019", "'"),
        ("\u2018", "'"),
        ("\u201c", '"'),
        ("\u201d", '"'),
        ("\u2013", "-"),
        ("\u2014", ", "),
    ):
        folded = folded.replace(old, new)
    bare = unicodedata.normalize("NFD", folded)
    return unicodedata.normalize("NFC", "".join(letter for letter in bare if not unicodedata.combining(letter)))


def _classified(tagged: Tagged, synonyms: Mapping[str, str]) -> list[Word]:
    words = list[Word]()
    raw = [token.word for token in tagged]
    at = 0
    while at < len(raw):
        length, word = _phrase(raw, at)
        if not length:
            length, word = 1, _one(tagged, at, words[-1] if words else None, synonyms)
        words.append(word)
        at += length
    return words


def _phrase(raw: Sequence[str], at: int) -> tuple[int, Word]:
    for table, kind in (
        (lexicon.PLACES, Kind.PLACE),
        (lexicon.QUANTITIES, Kind.NUMBER),
        (lexicon.RELATIONS, Kind.PREPOSITION),
    ):
        for phrase, name in table.items():
            if tuple(raw[at : at + len(phrase)]) == phrase and not _is_cut(raw, at, phrase, kind):
                return len(phrase), Word(kind, name.strip(), " ".join(phrase))
    return 0, Word(Kind.NEUTRAL, "", "")


def _is_cut(raw: Sequence[str], at: int, phrase: Sequence[str], kind: Kind) -> bool:
    """Whether a phrase is part of another: "on the top shelf", "on the left of a box"."""
    following = raw[at + len(phrase)] if at + len(phrase) < len(raw) else ""
    if kind is Kind.NUMBER:
        return phrase in (("a", "dozen"), ("one", "dozen")) and following == "of"
    if kind is not Kind.PLACE:
        return False
    return following == "of" or (following.isalpha() and phrase[-1] in ("top", "left", "right", "bottom", "middle",
                                 "center", "centre") and following not in _AFTER_PLACES)  # fmt: skip


_AFTER_PLACES: Final = lexicon.AFTER_PLACES
_PUNCTUATION: Final = frozenset(",;.:()/!?-|")


def _one(tagged: Tagged, at: int, before: Word | None, synonyms: Mapping[str, str]) -> Word:
    raw, tag, _ = tagged[at]
    following = tagged[at + 1] if at + 1 < len(tagged) else None
    kind, name = _kind(raw, tag, before, following)
    if kind is Kind.NOUN:
        name = inflection.noun(raw)
        name = synonyms.get(name) or synonyms.get(inflection.singular(raw), name)
    elif kind is Kind.ADJECTIVE:
        name = synonyms.get(raw) or lexicon.COLOURS.get(raw) or lexicon.SIZES.get(raw) or inflection.adjective(raw)
    elif kind is Kind.VERB:
        name = inflection.verb(raw)
    return Word(kind, name, raw, tag)


def _kind(raw: str, tag: str, before: Word | None, following: object) -> tuple[Kind, str]:
    if raw.startswith(QUOTED) and raw.removeprefix(QUOTED).isdigit():
        return Kind.NOUN, raw
    if raw in _PUNCTUATION or tag in (",", ".", ":", "-LRB-", "-RRB-", "HYPH"):
        return Kind.COMMA, ","
    if tag == "POS":
        return Kind.POSSESSIVE, "of"
    if raw in lexicon.NOT:
        return Kind.NOT, "not"
    if raw in lexicon.NO:
        return Kind.NO, "no"
    if raw in lexicon.UNREADABLE:
        return Kind.UNREADABLE, raw
    if raw in ("and", "&", "plus", "but", "+"):
        return Kind.AND, "and"
    if raw == "or":
        return Kind.OR, "or"
    if raw in lexicon.OWN_DETERMINERS and tag != "PRP" and not (raw == "that" and tag in ("WDT", "WP")):
        return Kind.DETERMINER, raw
    if raw in lexicon.NEUTRAL or raw in lexicon.INTENSIFIERS:
        return Kind.NEUTRAL, raw
    if raw in lexicon.NUMBERS or re.fullmatch(r"\d+", raw):
        return Kind.NUMBER, lexicon.NUMBERS.get(raw, raw.lstrip("0") or "0")
    return _by_tag(raw, tag, before, following)


def _by_tag(raw: str, tag: str, before: Word | None, following: object) -> tuple[Kind, str]:
    next_tag = getattr(following, "tag", "")
    next_word = getattr(following, "word", "")
    if raw in lexicon.COLOURS or raw in lexicon.SIZES:
        ends = not (next_tag[:2] in ("NN", "JJ", "VB", "CD") or next_word in lexicon.COLOURS or next_word == "and")
        is_thing = before is not None and before.kind in (Kind.DETERMINER, Kind.NUMBER) and ends
        return (Kind.NOUN if is_thing else Kind.ADJECTIVE), raw
    if "-" in raw and (raw.endswith("ed") or not tag.startswith("NN")):
        return Kind.ADJECTIVE, raw
    if tag.startswith("NN") or tag in (
        "FW",
        "PRP",
        "$",
        "XX",
        "SYM",
        "LS",
        "CD",
        "ADD",
        "UH",
        "GW",
        "AFX",
        "NFP",
        "``",
        "''",
    ):
        return Kind.NOUN, raw
    if tag.startswith("JJ"):
        return Kind.ADJECTIVE, raw
    if tag.startswith("VB"):
        return Kind.VERB, raw
    if tag in ("IN", "TO", "RP"):
        return (Kind.NEUTRAL if raw in ("while", "that", "as") else Kind.PREPOSITION), raw
    if tag.startswith("RB") or tag in ("WRB", "MD", "DT", "PDT", "WP", "WDT", "EX", "CC", "PRP$", "WP$"):
        return Kind.ADVERB, raw
    return Kind.UNREADABLE, raw


def _without_styles(words: list[Word], styles: set[str]) -> list[Word]:
    """Take out what says how the image is made: "a painting of", clauses and endings of such words."""
    clauses = [_without_ending(clause, styles) for clause in _clauses(_without_beginning(words, styles))]
    kept = [clause for clause in clauses if clause and not _is_style(clause)]
    if not kept:
        kept = [clause for clause in clauses if clause]
    for clause in clauses:
        if clause and clause not in kept:
            styles.add(_as_style(clause))
    joined = list[Word]()
    for clause in kept:
        joined += [Word(Kind.COMMA, ",", ","), *clause] if joined else clause
    return joined


def _clauses(words: Iterable[Word]) -> list[list[Word]]:
    clauses: list[list[Word]] = [[]]
    for word in words:
        if word.kind is Kind.COMMA:
            clauses.append([])
        else:
            clauses[-1].append(word)
    return clauses


def _spelled(words: Iterable[Word]) -> list[str]:
    return [part for word in words for part in word.raw.split()]


_SAYS_NOTHING: Final = frozenset(
    {"a", "an", "the", "style", "in", "of", "by", "as", "with", "highly", "very", "quality"}
)


def _as_style(words: Iterable[Word]) -> str:
    return " ".join(part for part in _spelled(words) if part not in _SAYS_NOTHING)


def _without_beginning(words: list[Word], styles: set[str]) -> list[Word]:
    spelled = [word.raw for word in words[:9]]
    for at, raw in enumerate(spelled):
        if (
            raw in ("of", "showing", "depicting", "shows", "featuring", ":")
            and at
            and spelled[at - 1] in lexicon.MEDIA_OF
        ):
            if all(part in _STYLE_WORDS or part in lexicon.MEDIA_OF for part in spelled[:at]):
                styles.add(_as_style(words[:at]))
                return _without_beginning(words[at + 1 :], styles)
        elif words[at].kind is Kind.COMMA:
            break
    return words


_STYLE_WORDS: Final = (
    lexicon.MEDIA | lexicon.BESIDE_MEDIA | lexicon.PRAISE | lexicon.MEDIUM_TRAITS | {"portrait", "close-up"}
)
_MADE: Final = lexicon.MEDIA | lexicon.PRAISE | lexicon.MEDIUM_TRAITS | {"portrait", "close-up"}
_OBJECTS_TOO: Final = frozenset(
    {"pencil", "lens", "film", "canvas", "ink", "poster", "light", "lights", "crayon", "charcoal"}
)


def _is_style(clause: Sequence[Word]) -> bool:
    spelled = _spelled(clause)
    if spelled[0] == "by" and len(spelled) > 1 and _is_somebody(clause[1:]):
        return True
    if spelled[-1] == "style" or spelled[:4] == ["in", "the", "style", "of"]:
        return True
    if spelled[0] in ("a", "an", "one", "the") and spelled[-1] in _OBJECTS_TOO:
        return False
    return all(word in _STYLE_WORDS for word in spelled) and any(word in _MADE for word in spelled)


def _is_somebody(words: Sequence[Word]) -> bool:
    """Whether these may be names of artists: words without a determiner that name no place or time."""
    if words[0].kind in (Kind.DETERMINER, Kind.NUMBER):
        return all(part in _STYLE_WORDS for part in _spelled(words))
    return len(words) > 1 and all(
        word.kind in (Kind.NOUN, Kind.AND, Kind.ADJECTIVE, Kind.VERB) and word.name not in lexicon.SETTINGS
        for word in words
    )


def _without_ending(clause: list[Word], styles: set[str]) -> list[Word]:
    for at in range(1, len(clause)):
        raw = clause[at].raw.split()[0]
        if (
            raw in ("in", "by", "on", "as")
            and clause[at].kind in (Kind.PREPOSITION, Kind.NEUTRAL)
            and _is_style(clause[at:])
        ):
            if raw == "by" and clause[at - 1].tag == "VBN":
                continue
            styles.add(_as_style(clause[at:]))
            return clause[:at]
    return clause

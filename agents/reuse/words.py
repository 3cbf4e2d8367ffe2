"""A prompt as words whose part in a sentence is known: what tags and word lists say, before anything is related.

"A painting of two red hearts next to a box, digital art"
 styles: painting, digital art      2 red heart  near  a box
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from typing import Final, NamedTuple

from agents.classifier.tagger import Tagged, Token
from agents.reuse import inflection, lexicon

MAX_STYLE_WORDS: Final = 5  # of a clause that ends with "style"
MAX_CHARACTERS: Final = 400  # what is read; text encoders see 77 tokens, about 350 characters
QUOTED: Final = "quoted"
_QUOTES: Final = re.compile(r'"([^"]+)"|(?<!\w)\'([^\']+)\'(?!\w)')
_POLITE: Final = r"(?:please\s+|hi\s+|hey\s+|hello\s+)*"
_ASKING: Final = r"(?:(?:can|could|would) you\s+|i (?:want|need|would like|'d like)(?: to see)?\s+|i want you to\s+)?"
_MAKING: Final = "draw|paint|generate|create|make|render|show|give|sketch|imagine|design|illustrate|picture|depict"
_ORDER: Final = re.compile(  # "please draw me a cat"
    rf"^\s*{_POLITE}{_ASKING}(?:please\s+)?(?:(?:{_MAKING})(?: me| us)?\s+"
    r"(?=(?:an?|the|some|one|two|three|four|five|six|\d|my)\b))?",
    re.IGNORECASE,
)
_MARKS: Final = str.maketrans({"|": ",", "\n": ",", **dict.fromkeys("[]{}*_~#", " ")})
_ONES: Final = "|".join([*list(lexicon.NUMBERS)[:20], r"\d+"])
_COUNTED: Final = re.compile(  # "five year old", "two headed"
    rf"\b({_ONES})[ _-](year[ _-]old|headed|legged|eyed|armed|winged|wheeled|stor(?:e?y|ied)|masted|piece|leaf)\b"
)
_GROUP: Final = re.compile(
    rf"\b(?:an? )?(?:group|set|team|total|collection) of (?=(?:{_ONES})\b)"
)  # "a group of three"
_COLOURLESS: Final = re.compile(r"\b(?:black and white|monochrome|sepia|gr[ae]yscale|b&w)\b")
_FLAG: Final = re.compile(r"(?:^|\s)--(\w+)(?:\s+[\w.:]+)?")  # "--ar 16:9"
_WEIGHT: Final = re.compile(r"[<>]|:\s*-?\d|::|\d\.\d")  # "(cat:1.3)"
_JOINED: Final = (
    ("pixel art", "pixel-art"),
    ("low poly", "lowpoly"),
    ("t shirt", "t-shirt"),
    ("fire truck", "firetruck"),
    ("water colour", "watercolor"),
    ("black & white", "black and white"),
    ("3 d", "3d"),
    ("one hundred", "hundred"),
    ("a hundred", "hundred"),
    ("one thousand", "thousand"),
    ("a thousand", "thousand"),
    ("two dozen", "24"),
    ("three dozen", "36"),
    ("police officer", "cop"),
    ("young dog", "puppy"),
    ("young cat", "kitten"),
    ("street lamp", "streetlamp"),
    ("street light", "streetlight"),
    ("cell phone", "cellphone"),
    ("mobile phone", "cellphone"),
    ("coffee shop", "cafe"),
    ("teddy bear", "teddy-bear"),
    ("ice cream", "icecream"),
    ("book shop", "bookshop"),
    ("book store", "bookshop"),
    ("motor car", "car"),
    ("light bulb", "lightbulb"),
    ("fire fighter", "firefighter"),
    ("sea shore", "seashore"),
    ("nobody", "no people"),
    ("no one", "no people"),
    ("noone", "no people"),
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
    ALL = auto()  # "both", of what was named before
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
    tones: set[str]  # without colours: how the image is made, and what it shows
    doubts: set[str] = field(default_factory=set)


def _counted(match: re.Match[str]) -> str:
    """Join a number with what it counts in front of a noun: "5-year-old", "2-headed"."""
    kind = re.sub(r"[ _]", "-", match[2]).replace("storied", "story").replace("storey", "story")
    return f"{lexicon.NUMBERS.get(match[1], match[1])}-{kind}"


def core(read: Words) -> str:
    """Return what is left of a prompt without style, articles and inflections, in its order."""
    if read.doubts - {"words"}:  # what was not read is not among its words
        return ""
    said = [
        f"{word.name}{'(s)' if word.kind is Kind.NOUN and inflection.is_plural(word.raw) else ''}"
        for word in read.words
        if word.kind not in (Kind.NEUTRAL, Kind.DETERMINER)
    ]
    return " ".join([*sorted(read.tones), *said, *(f'"{text}"' for text in read.texts)]) if said else ""


def literal(prompt: str) -> str:
    """Return a prompt without what never carries meaning: case outside quotes, spacing, punctuation at its end."""
    plain = " ".join(_plain(prompt).split())
    parts = re.split(r'("[^"]*")', plain)
    lowered = "".join(part if part.startswith('"') else part.lower() for part in parts)
    return re.sub(r"\s*([,;.])\s*", r"\1 ", lowered).rstrip(" .,;!")


@dataclass(frozen=True)
class Vocabulary:
    """Words with a meaning of their own in one kind of prompts, before that of the lexicon."""

    synonyms: Mapping[str, str]
    colours: frozenset[str]


NO_VOCABULARY: Final = Vocabulary({}, frozenset())


def read_words(
    prompt: str, tags: Callable[[str], Tagged], vocabulary: Vocabulary = NO_VOCABULARY, *, is_rest: bool = False
) -> Words:
    """Read a prompt's words. `tags`: of a text; `is_rest`: its things were read already, so that it may state none."""
    doubts = set[str]()
    plain = _plain(prompt).strip()
    if re.fullmatch(r"\"[^\"]*\"|'[^']*'", plain):  # nothing but a quotation is the prompt itself
        plain = plain[1:-1]
    plain = re.sub(r"\s+please\W*$", "", _ORDER.sub("", plain, count=1), flags=re.IGNORECASE)
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
    if any(not sign.isascii() and unicodedata.category(sign)[0] in "LSN" for sign in text):
        doubts.add("script")
    text = text.lower().translate(_MARKS)
    for old, new in _JOINED:
        text = re.sub(rf"\b{old}(s?)\b", rf"{new}\1", text)
    text = _COUNTED.sub(_counted, _GROUP.sub("", text))
    text = re.sub(r"(?<=\w)-(?=\w)", "_", text)  # the tagger would take hyphens apart
    tagged = [token._replace(word=token.word.replace("_", "-")) for token in tags(text)]
    words = _without_styles(_classified(tagged, vocabulary), styles, is_rest=is_rest)
    if any(word.kind is Kind.UNREADABLE for word in words):
        doubts.add("words")
    tones = {"monochrome"} if any(map(_COLOURLESS.search, styles)) else set[str]()
    return Words(words, styles, texts, tones, doubts)


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


def _classified(tagged: Tagged, vocabulary: Vocabulary) -> list[Word]:
    words = list[Word]()
    raw = [token.word for token in tagged]
    at = 0
    while at < len(raw):
        length, word = _phrase(raw, at)
        if length and word.kind is Kind.PREPOSITION and raw[at + length : at + length + 1] == ["which"]:
            length, word = length + 1, word._replace(name=f"which {word.name}")
        if not length:
            length, word = 1, _one(tagged, at, words, vocabulary)
        words.append(word)
        at += length
    return words


def _phrase(raw: Sequence[str], at: int) -> tuple[int, Word]:
    """Return the longest phrase of the word lists that begins here with its number of words; 0: none does."""
    for phrase, kind, name in _phrases_by_word().get(raw[at], ()):
        if tuple(raw[at : at + len(phrase)]) == phrase and not _is_cut(raw, at, phrase, kind):
            return len(phrase), Word(kind, name, " ".join(phrase))
    return 0, Word(Kind.NEUTRAL, "", "")


@cache
def _phrases_by_word() -> dict[str, list[tuple[tuple[str, ...], Kind, str]]]:
    """First word -> phrases: places before quantities before relations, longer ones first."""
    found: dict[str, list[tuple[tuple[str, ...], Kind, str]]] = {}
    for table, kind in (
        (lexicon.PLACES, Kind.PLACE),
        (lexicon.QUANTITIES, Kind.NUMBER),
        (lexicon.RELATIONS, Kind.PREPOSITION),
    ):
        for phrase, name in table.items():
            found.setdefault(phrase[0], []).append((phrase, kind, name.strip()))
    return found


def _is_cut(raw: Sequence[str], at: int, phrase: Sequence[str], kind: Kind) -> bool:
    """Whether a phrase is part of another: "on the top shelf", "on the left of a box"."""
    following = raw[at + len(phrase)] if at + len(phrase) < len(raw) else ""
    if kind is Kind.NUMBER:
        return phrase in (("a", "dozen"), ("one", "dozen")) and following == "of"
    if kind is not Kind.PLACE:
        return False
    return following == "of" or (following.isalpha() and phrase[-1] in ("top", "left", "right", "bottom", "middle",
                                 "center", "centre") and following not in lexicon.AFTER_PLACES)  # fmt: skip


_PUNCTUATION: Final = frozenset(",;.:()/!?-|")


def _one(tagged: Tagged, at: int, before: Sequence[Word], vocabulary: Vocabulary) -> Word:
    raw, tag, _ = tagged[at]
    following = tagged[at + 1] if at + 1 < len(tagged) else _END
    kind, name = _kind(raw, tag, before, following, vocabulary)
    synonyms = vocabulary.synonyms
    if kind is Kind.NOUN and not raw.startswith(QUOTED):
        name = inflection.noun(raw)
        name = synonyms.get(name) or synonyms.get(inflection.singular(raw), name)
    elif kind is Kind.ADJECTIVE:
        name = synonyms.get(raw) or lexicon.COLOURS.get(raw) or lexicon.SIZES.get(raw) or inflection.adjective(raw)
    elif kind is Kind.VERB:
        name = inflection.verb(lexicon.ADJECTIVES_OF_VERBS.get(raw, raw))
    return Word(kind, name, raw, tag)


_END: Final = Token("", "", False)
_FIXED: Final = {
    **dict.fromkeys(lexicon.NOT, (Kind.NOT, "not")),
    **dict.fromkeys(lexicon.NO, (Kind.NO, "no")),
    **dict.fromkeys(("and", "&", "but", "+"), (Kind.AND, "and")),
    **dict.fromkeys(("or", "nor"), (Kind.OR, "or")),
}


def _kind(raw: str, tag: str, before: Sequence[Word], following: Token, vocabulary: Vocabulary) -> tuple[Kind, str]:
    last = before[-1].kind if before else None
    if raw.startswith(QUOTED) and raw.removeprefix(QUOTED).isdigit():
        return Kind.NOUN, raw
    if raw in _PUNCTUATION or tag in (",", ".", ":", "-LRB-", "-RRB-", "HYPH"):
        return Kind.COMMA, ","
    if tag == "POS":
        return Kind.POSSESSIVE, "of"
    if raw in _FIXED:
        return _FIXED[raw]
    if raw == "plus" and following.word and (last is Kind.NOUN or following.tag in ("DT", "CD")):
        return Kind.AND, "and"
    if raw in lexicon.UNREADABLE and not (raw == "only" and _is_number(following.word)):
        return Kind.UNREADABLE, raw
    if raw in ("both", "all"):
        return (Kind.DETERMINER if following.tag.startswith("NN") or following.word in ("the", "of") else Kind.ALL), raw
    if raw == "that" and following.tag.startswith("NN"):
        return Kind.DETERMINER, raw
    if raw in lexicon.OWN_DETERMINERS and tag != "PRP" and not (raw == "that" and tag in ("WDT", "WP")):
        return Kind.DETERMINER, raw
    if raw in lexicon.NEUTRAL or raw in lexicon.INTENSIFIERS or raw == "only":
        return Kind.NEUTRAL, raw
    if _is_number(raw):
        return Kind.NUMBER, _number(raw)
    return _by_tag(raw, tag, before, following, vocabulary)


def _is_number(raw: str) -> bool:
    tens, hyphen, ones = raw.partition("-")
    if hyphen:  # "twenty-one"
        return len(lexicon.NUMBERS.get(tens, "")) == 2 and len(lexicon.NUMBERS.get(ones, "")) == 1
    return raw in lexicon.NUMBERS or (raw.isascii() and raw.isdigit())


def _number(raw: str) -> str:
    tens, hyphen, ones = raw.partition("-")
    if hyphen:
        return str(int(lexicon.NUMBERS[tens]) + int(lexicon.NUMBERS[ones]))
    return lexicon.NUMBERS.get(raw) or raw.lstrip("0") or "0"


_KNOWN_NOUNS: Final = lexicon.SETTINGS | lexicon.WORN | lexicon.STILL | lexicon.CONTAINERS
_NOUN_TAGS: Final = frozenset(
    ("NN", "NNS", "NNP", "NNPS", "FW", "PRP", "$", "XX", "SYM", "LS", "CD", "ADD", "UH", "GW", "AFX", "NFP", "``", "''")
)


def _by_tag(raw: str, tag: str, before: Sequence[Word], following: Token, vocabulary: Vocabulary) -> tuple[Kind, str]:
    last = before[-1].kind if before else None
    is_colour = raw in lexicon.COLOURS or raw in vocabulary.colours
    if is_colour or raw in lexicon.SIZES:
        goes_on = following.tag[:2] in ("NN", "JJ", "VB", "CD") or following.word == "and"
        goes_on = goes_on or following.word in lexicon.COLOURS or following.word in vocabulary.colours
        is_thing = last in (Kind.DETERMINER, Kind.NUMBER) and not goes_on
        return (Kind.NOUN if is_thing else Kind.ADJECTIVE), raw
    if "-" in raw and (raw.endswith("ed") or not tag.startswith("NN")):
        return Kind.ADJECTIVE, raw
    if raw in lexicon.ADJECTIVES_OF_VERBS:
        return Kind.VERB, raw
    if inflection.singular(raw) in vocabulary.synonyms or raw in vocabulary.synonyms:
        return Kind.NOUN, raw
    is_verb = tag.startswith("VB")
    if is_verb and tag not in ("VBG", "VBN") and _begins_as_noun(before, following):
        return Kind.NOUN, raw
    if tag in _NOUN_TAGS:
        does = last is Kind.NOUN and tag == "NN" and inflection.says_action(raw)
        return (Kind.VERB if does else Kind.NOUN), raw
    if not is_verb and inflection.noun(raw) in _KNOWN_NOUNS:
        return Kind.NOUN, raw
    if tag.startswith("JJ"):
        return Kind.ADJECTIVE, raw
    if is_verb:
        return Kind.VERB, raw
    if tag in ("IN", "TO", "RP"):
        return (Kind.NEUTRAL if raw in ("while", "that", "as") else Kind.PREPOSITION), raw
    if tag.startswith("RB") or tag in ("WRB", "MD", "DT", "PDT", "WP", "WDT", "EX", "CC", "PRP$", "WP$"):
        return Kind.ADVERB, raw
    return Kind.UNREADABLE, raw


def _begins_as_noun(before: Sequence[Word], following: Token) -> bool:
    """Whether a word stands where only a noun can, though the tagger takes it for a verb: "a single rose"."""
    at = len(before) - 1
    while at >= 0 and before[at].kind is Kind.ADJECTIVE:
        at -= 1
    if at >= 0 and before[at].kind in (Kind.DETERMINER, Kind.NUMBER):
        return True
    if at < len(before) - 1 or not (at < 0 or before[at].kind in (Kind.COMMA, Kind.PREPOSITION)):
        return False
    is_last = following.word in ("", ",", ".", ";")
    return following.tag.startswith("NN") or (is_last and bool(before))


def _without_styles(words: list[Word], styles: set[str], *, is_rest: bool) -> list[Word]:
    """Take out what says how the image is made: "a painting of", clauses and endings of such words."""
    clauses = [_without_ending(clause, styles) for clause in _clauses(_without_beginning(words, styles))]
    kept = [clause for clause in clauses if clause and not _is_style(clause)]
    if len(kept) < len(clauses):  # "4k, smooth": beside a clause of style
        kept = [clause for clause in kept if not _is_beside_style(clause)] or kept
    if not kept and not is_rest:
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
_MEDIUM_WORDS: Final = lexicon.MEDIA | lexicon.PRAISE | lexicon.MEDIUM_TRAITS | {"portrait", "close-up"}
_OBJECTS_TOO: Final = frozenset(
    {"pencil", "lens", "film", "canvas", "ink", "poster", "light", "lights", "crayon", "charcoal"}
)


def _is_style(clause: Sequence[Word]) -> bool:
    spelled = _spelled(clause)
    if spelled[0] == "by" and len(spelled) > 1 and _is_somebody(clause[1:]):
        return True
    if spelled[:4] == ["in", "the", "style", "of"]:
        return True
    is_plain = not any(word.kind is Kind.PREPOSITION for word in clause[1:])
    if spelled[-1] == "style" and is_plain and len(spelled) <= MAX_STYLE_WORDS:  # "in a comic book style"
        return True
    if spelled[0] in ("a", "an", "one", "the") and spelled[-1] in _OBJECTS_TOO:
        return False
    return all(word in _STYLE_WORDS for word in spelled) and any(word in _MEDIUM_WORDS for word in spelled)


def _is_beside_style(clause: Sequence[Word]) -> bool:
    return len(clause) == 1 and clause[0].raw in lexicon.BESIDE_MEDIA and clause[0].raw not in lexicon.COLOURS


def _is_somebody(words: Sequence[Word]) -> bool:
    """Whether these may be names of artists: words without a determiner that name no place or time."""
    if words[0].kind in (Kind.DETERMINER, Kind.NUMBER):
        return all(part in _STYLE_WORDS for part in _spelled(words))
    return len(words) > 1 and all(
        word.kind in (Kind.NOUN, Kind.AND, Kind.ADJECTIVE, Kind.VERB) and word.name not in lexicon.SETTINGS
        for word in words
    )


# Not enough at the end of a sentence: "a cat in the light".
_NOT_ENDING: Final = _OBJECTS_TOO | {"lit", "view", "angle", "engine", "mood", "concept", "shot", "colors", "colours"}


def _without_ending(clause: list[Word], styles: set[str]) -> list[Word]:
    for at in range(1, len(clause)):
        raw = clause[at].raw.split()[0]
        if (
            raw in ("in", "by", "on", "as")
            and clause[at].kind in (Kind.PREPOSITION, Kind.NEUTRAL)
            and _is_style(clause[at:])
            and (raw == "by" or set(_spelled(clause[at:])) & (_MEDIUM_WORDS - _NOT_ENDING))
        ):
            if raw == "by" and (clause[at - 1].kind is Kind.VERB or clause[at - 1].raw.endswith("ed")):
                continue
            styles.add(_as_style(clause[at:]))
            return clause[:at]
    return clause

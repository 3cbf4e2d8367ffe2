"""Words grouped into noun phrases and what stands between them.

two small red hearts  and  a star  that is not blue  on the left
NounPhrase            AND  Noun..  Described         PLACE
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agents.reuse import inflection, lexicon
from agents.reuse.words import QUOTED, Kind, Word
from planner.reuse.facts import ONE, SOME


@dataclass(frozen=True, slots=True, kw_only=True)
class NounPhrase:
    """A noun with all that is said before it."""

    noun: str
    count: str = ONE
    colours: frozenset[str] = frozenset()
    sizes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    praise: frozenset[str] = frozenset()
    parts: tuple["NounPhrase", ...] = ()  # what it is with: "a blue-eyed cat" with blue eyes
    is_negated: bool = False
    has_determiner: bool = False
    refers: bool = False  # "the cat", "that cat": perhaps one that was named before
    is_owned: bool = False  # "her hat"

    def described(self) -> str:
        """The phrase in one text, for what is absent or all around."""
        count = [self.count] if self.count not in (ONE, SOME) else []
        lacks = [f"without {each}" for each in sorted(self.lacks)]
        parts = [f"with {each.described()}" for each in self.parts]
        return " ".join([*count, *sorted(self.sizes | self.colours | self.traits), self.noun, *lacks, *parts])


class Described(NamedTuple):
    """Words about the thing before them: "that are not red", "sleeping"."""

    words: tuple[Word, ...]
    is_negated: bool


class Action(NamedTuple):
    """A verb."""

    name: str
    is_negated: bool
    is_passive: bool  # "ridden", if "by" follows


class All(NamedTuple):
    """What follows is of all things that were named: "both", "all"."""


class Link(NamedTuple):
    """A preposition, AND, OR, COMMA, a place, a possessive."""

    kind: Kind
    name: str
    is_negated: bool = False


Element = NounPhrase | Described | Action | Link | All
_LINKS = (Kind.PREPOSITION, Kind.AND, Kind.OR, Kind.COMMA, Kind.PLACE, Kind.POSSESSIVE)
_DESCRIBING = (Kind.ADJECTIVE, Kind.ADVERB)


class PhraseReader:
    """Groups the words of one prompt. `doubts` says what it could not read."""

    def __init__(self, words: Sequence[Word], texts: Sequence[str]) -> None:
        self.doubts = set[str]()
        self._words = [word for word in words if word.kind is not Kind.NEUTRAL]
        self._texts = texts
        self._at = 0
        self._elements: list[Element] = []

    def read(self) -> list[Element]:
        """Return the elements in their order."""
        while self._at < len(self._words):
            self._step()
        return self._elements

    def _kind(self, ahead: int = 0) -> Kind | None:
        at = self._at + ahead
        return self._words[at].kind if at < len(self._words) else None

    def _step(self) -> None:
        is_negated = False
        while self._kind() is Kind.NOT:
            if is_negated:
                self.doubts.add("negation")
            is_negated = True
            self._at += 1
        word = self._words[self._at] if self._at < len(self._words) else None
        if word is None:
            self.doubts.add("negation")
            return
        if word.kind is Kind.NUMBER and self._is_bare_number():
            self._at += 1
            self._elements.append(Described((word,), is_negated))
        elif phrase := self._noun_phrase():
            if is_negated:
                phrase = _negated(phrase)
            self._elements.append(phrase)
        elif word.kind in _LINKS:
            self._at += 1
            if is_negated and word.kind is not Kind.PREPOSITION:
                self.doubts.add("negation")
            self._elements.append(Link(word.kind, word.name, is_negated))
        elif word.kind is Kind.ALL:
            self._at += 1
            self._elements.append(All())
            if is_negated:
                self.doubts.add("negation")
        elif word.kind is Kind.VERB:
            self._at += 1
            self._elements.append(Action(word.name, is_negated, word.tag == "VBN" or word.raw.endswith("ed")))
        else:
            self._described(is_negated)

    def _described(self, is_negated: bool) -> None:
        begin = self._at
        while self._kind() in _DESCRIBING or (
            self._at > begin and self._kind() is Kind.AND and self._kind(1) in _DESCRIBING and not self._begins_noun(1)
        ):
            self._at += 1
        words = tuple(word for word in self._words[begin : self._at] if word.kind is not Kind.AND)
        if not words:  # a determiner, number or "no" without a noun
            self.doubts.add("ellipsis")
            words = (self._words[self._at],)
            self._at += 1
        self._elements.append(Described(words, is_negated))

    def _is_bare_number(self) -> bool:
        """Whether a number stands alone in its clause: "two mugs, exactly two"."""
        before = self._words[self._at - 1].kind if self._at else None
        return before is Kind.COMMA and self._kind(1) in (None, Kind.COMMA)

    def _begins_noun(self, ahead: int) -> bool:
        """Whether a noun phrase begins here, so that these adjectives are its own."""
        at = self._at + ahead
        while at < len(self._words) and self._words[at].kind in (*_DESCRIBING, Kind.NUMBER):
            at += 1
        return at < len(self._words) and self._words[at].kind is Kind.NOUN

    def _noun_phrase(self) -> NounPhrase | None:
        """Read a noun phrase, if one begins here."""
        begin, has_determiner, determiner, count, is_negated = self._at, False, "", "", False
        modifiers, nouns = list[Word](), list[Word]()
        at = begin
        while at < len(self._words):
            word = self._words[at]
            following = self._words[at + 1].kind if at + 1 < len(self._words) else None
            if word.kind is Kind.NO and at == begin:
                is_negated = True
            elif word.kind is Kind.DETERMINER and not (modifiers or nouns or count or has_determiner):
                has_determiner, determiner = True, word.name
            elif word.kind is Kind.NUMBER and not (nouns or count or modifiers):
                if determiner in ("a", "an") and word.raw.isalpha() and word.name.isdigit() and word.name != ONE:
                    modifiers.append(word)  # "a three ring circus"
                else:
                    count = word.name
            elif word.kind in _DESCRIBING and not nouns:
                modifiers.append(word)
            elif word.kind is Kind.NOUN:
                nouns.append(word)
            elif (
                word.kind is Kind.VERB
                and not nouns
                and self._is_participle(at, following, bool(has_determiner or count or modifiers))
            ):
                modifiers.append(word)
            elif word.kind in (Kind.AND, Kind.COMMA) and modifiers and not nouns and self._goes_on(at, modifiers[-1]):
                if word.kind is Kind.COMMA and not (has_determiner or count):
                    break
            else:
                break
            at += 1
        if has_determiner and modifiers and not nouns and _can_be_noun(modifiers[-1]):
            nouns.append(modifiers.pop())
        if not nouns:
            if has_determiner or count or is_negated:
                self.doubts.add("ellipsis")
            return None
        self._at = at
        phrase = self._phrase_of(nouns, modifiers, count, determiner)
        return replace(
            phrase,
            is_negated=is_negated,
            has_determiner=has_determiner or bool(count),
            refers=determiner in ("the", "that", "this", "those", "these") and not count,
            is_owned=determiner in lexicon.POSSESSIVES,
        )

    def _is_participle(self, at: int, following: Kind | None, is_inside: bool) -> bool:
        """Whether a verb form is an adjective: "a running dog", "flowing hair"; not in "holding balloons"."""
        word = self._words[at]
        if word.tag not in ("VBG", "VBN") and not word.raw.endswith(("ing", "ed")):
            return is_inside and following is Kind.NOUN
        if is_inside:
            return following in (Kind.NOUN, Kind.ADJECTIVE, Kind.VERB, Kind.COMMA, Kind.AND)
        before = self._words[at - 1].kind if at else None
        return before in (None, Kind.COMMA, Kind.PREPOSITION, Kind.AND) and following is Kind.NOUN and (
            word.name not in _transitive()
        )  # fmt: skip

    def _goes_on(self, at: int, before: Word) -> bool:
        """Whether "and" or a comma joins two adjectives of one noun: "black and white cat"."""
        if at + 1 >= len(self._words) or self._words[at + 1].kind not in (*_DESCRIBING, Kind.VERB):
            return False
        if self._words[at].kind is Kind.COMMA and before.kind is not Kind.ADJECTIVE:
            return False
        end = at + 1
        while end < len(self._words) and self._words[end].kind in (*_DESCRIBING, Kind.VERB):
            end += 1
        return end < len(self._words) and self._words[end].kind is Kind.NOUN

    def _phrase_of(self, nouns: list[Word], modifiers: list[Word], count: str, determiner: str) -> NounPhrase:
        head = nouns[-1]
        colours, sizes, traits, lacks, praise = set[str](), set[str](), set[str](), set[str](), set[str]()
        parts = list[NounPhrase]()
        for word in (*modifiers, *nouns[:-1]):
            stem = word.raw.removesuffix("less") if word.raw.endswith("less") and word.raw not in lexicon.LESS else ""
            if word.raw in lexicon.PRAISE or word.raw in lexicon.MEDIUM_TRAITS:
                praise.add(word.raw)
            elif len(stem) > 2:
                lacks.add(inflection.noun(stem))
            elif word.raw.endswith("-free"):
                lacks.add(inflection.noun(word.raw.removesuffix("-free")))
            elif part := _part(word.raw):
                parts.append(part)
            elif word.raw.startswith("non-"):
                traits.add(f"not {word.raw.removeprefix('non-')}")
            elif word.kind is Kind.ADJECTIVE and (word.raw in lexicon.COLOURS or word.name in lexicon.COLOURS):
                colours.add(word.name)
            elif word.kind is Kind.ADJECTIVE and word.raw in lexicon.SIZES:
                sizes.add(word.name)
            else:
                traits.add(self._trait(word))
        plural = inflection.is_plural(head.raw) and determiner not in lexicon.SINGULAR_DETERMINERS
        return NounPhrase(
            noun=self._name(head),
            count=count or (SOME if plural else ONE),
            colours=frozenset(colours),
            sizes=frozenset(sizes),
            traits=frozenset(traits),
            lacks=frozenset(lacks),
            praise=frozenset(praise),
            parts=tuple(parts),
        )

    def _trait(self, word: Word) -> str:
        """Return what a word before a noun says of it; a material and an action have one name in every form."""
        if word.raw in lexicon.MATERIALS:
            return lexicon.MATERIALS[word.raw]
        if word.kind is Kind.NOUN and inflection.says_action(word.raw):
            return inflection.verb(word.raw)
        return self._name(word)

    def _name(self, word: Word) -> str:
        if word.raw.startswith(QUOTED) and word.raw.removeprefix(QUOTED).isdigit():
            return f'"{self._texts[int(word.raw.removeprefix(QUOTED))]}"'
        return word.name


def _transitive() -> frozenset[str]:
    return frozenset(inflection.verb(word) for word in lexicon.TRANSITIVE)


def _negated(phrase: NounPhrase) -> NounPhrase:
    return replace(phrase, is_negated=not phrase.is_negated)


def _can_be_noun(word: Word) -> bool:
    """Whether an adjective behind a determiner may stand for a thing: "a tiny flat", "the elderly"."""
    return word.kind is Kind.ADJECTIVE and word.raw not in lexicon.COLOURS and word.raw not in lexicon.SIZES


def _part(raw: str) -> NounPhrase | None:
    """Read "blue-eyed" as blue eyes, "bearded" as a beard."""
    if raw in lexicon.PARTED:
        noun = lexicon.PARTED[raw]
        return NounPhrase(noun=noun, count=SOME if noun in lexicon.PARTS_IN_PAIRS else ONE)
    owner, _, ending = raw.rpartition("-")
    if not owner or ending not in lexicon.HAS_PARTS:
        return None
    noun = lexicon.HAS_PARTS[ending]
    count = owner if owner.isdigit() else lexicon.NUMBERS.get(owner, SOME if noun in lexicon.PARTS_IN_PAIRS else ONE)
    colours = frozenset({lexicon.COLOURS[owner]} if owner in lexicon.COLOURS else ())
    sizes = frozenset({lexicon.SIZES[owner]} if owner in lexicon.SIZES else ())
    is_plain = colours or sizes or owner in lexicon.NUMBERS or owner.isdigit()
    traits = frozenset() if is_plain else frozenset({owner})
    return NounPhrase(noun=noun, count=count, colours=colours, sizes=sizes, traits=traits)

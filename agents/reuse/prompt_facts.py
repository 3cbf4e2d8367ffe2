"""Reads the facts that prompts state, for the guard of reuse: by the world's grammar, else by tagged words."""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from agents.reuse import inflection, world_facts
from agents.reuse.lexicon import MATERIALS, PRONOUNS
from agents.reuse.phrases import PhraseReader
from agents.reuse.relating import Relater
from agents.reuse.tagger import PromptTagger
from agents.reuse.words import NO_VOCABULARY, QUOTED, Kind, Word, core, literal, read_words
from planner.reuse.facts import PromptFacts
from planner.reuse.guard import Comparison, Difference, Verdict, compare

REMEMBERED: Final = 4096  # prompts whose facts are kept
TAGGED: Final = 1024  # texts whose tags are kept, 5 KB each: a prompt is read in two languages, one after the other
MAX_APART: Final = 2  # things that only one of two prompts names: an edit puts one in the place of another
FAR_APART: Final = Comparison(  # of every kind, as nobody has looked: the guard allows what the strictest kind allows
    Verdict.DIFFERS, frozenset(Difference) - {Difference.STYLE}, frozenset({"unread"})
)
UNSTATED: Final = PRONOUNS | {"hand", "hands", "arm", "arms"}  # "a sword in his hand" is held


class FactReader:
    """Reads prompts of any language of words; what it does not understand is a doubt, never an error.

    Not for use by several threads, as its tagger is not.
    """

    def __init__(self, tagger: PromptTagger | None = None, *, knows_world: bool = True) -> None:
        """`knows_world`: whether the models draw the tiny world, where a ball is a circle; for others words count."""
        self._tags = lru_cache(TAGGED)((tagger or PromptTagger()).tags)  # the dearest part of reading
        self._knows_world = knows_world
        self._world_words = world_facts.vocabulary()
        self._remembered = lru_cache(REMEMBERED)(self._read_words)
        self._is_worldly = lru_cache(REMEMBERED)(self._names_the_world_alone)
        self._caption = lru_cache(REMEMBERED)(world_facts.find_caption)

    def pair(self, one: str, other: str) -> tuple[PromptFacts, PromptFacts]:
        """Return the facts of two prompts, both read in one language: by the grammar only if it reads both."""
        if self._knows_world:
            captions = self._caption(one), self._caption(other)
            if captions[0] and captions[1]:
                return self._world(one, captions[0]), self._world(other, captions[1])
            if self._is_worldly(one) and self._is_worldly(other):
                return self._remembered(one, True, False), self._remembered(other, True, False)
        return self.words(one), self.words(other)

    def compare(self, one: str, other: str) -> Comparison:
        """Compare the facts of two prompts; those that name many other things of the world are not read any further."""
        return FAR_APART if self._are_far_apart(one, other) else compare(*self.pair(one, other))

    def _are_far_apart(self, one: str, other: str) -> bool:
        """Whether two prompts name too many different things of the world to be edits of one another.

        Captions alone are read without tags, and so at no cost.
        """
        if not self._knows_world or all(caption and not caption.rest for caption in map(self._caption, (one, other))):
            return False
        return len(world_facts.named_shapes(one) ^ world_facts.named_shapes(other)) > MAX_APART

    def words(self, prompt: str) -> PromptFacts:
        """Return the facts of a prompt by its words, whether the grammar reads it or not."""
        return self._remembered(prompt, False, False)

    def _names_the_world_alone(self, prompt: str) -> bool:
        """Whether a prompt names things of the world alone, so that the world's synonyms hold, if not its grammar."""
        words = read_words(prompt, self._tags, self._world_words).words
        nouns = [word.raw for word in words if word.kind is Kind.NOUN and word.raw not in PRONOUNS]
        return bool(nouns) and all(map(world_facts.is_shape, nouns))

    def _read_words(self, prompt: str, is_worldly: bool, is_rest: bool) -> PromptFacts:
        vocabulary = self._world_words if is_worldly else NO_VOCABULARY
        read = read_words(prompt, self._tags, vocabulary, is_rest=is_rest)
        phrases = PhraseReader(read.words, read.texts)
        elements = phrases.read()
        relater = Relater(elements, read.doubts | phrases.doubts)
        relater.background |= read.tones
        facts = relater.facts(literal(prompt), core(read), read.texts, read.styles)
        return facts if _holds_all(facts, read.words) else replace(facts, doubts=facts.doubts | {"lost"})

    def _world(self, prompt: str, caption: world_facts.Embedded) -> PromptFacts:
        facts = world_facts.facts_of(caption.scene, caption.styles, literal(prompt))
        if not caption.rest:
            return facts
        rest = self._remembered(caption.rest, False, True)
        return PromptFacts(
            language=facts.language,
            words=facts.words,
            things=(*facts.things, *rest.things),
            relations=tuple(
                each._replace(subject=each.subject + len(facts.things), object=each.object + len(facts.things))
                for each in rest.relations
            ),
            absent=facts.absent | rest.absent,
            background=facts.background | rest.background,
            texts=rest.texts,
            styles=facts.styles | rest.styles,
            doubts=rest.doubts - {"nothing"},
        )


def _holds_all(facts: PromptFacts, words: Iterable[Word]) -> bool:
    """Whether every noun and verb is part of some fact: what the reading lost must not pass for equal."""
    held = " ".join(
        (
            *(" ".join((each.noun, *each.colours, *each.sizes, *each.traits, *each.lacks)) for each in facts.things),
            *(each.name for each in facts.relations),
            *facts.absent,
            *facts.background,
            *facts.styles,
        )
    )
    return all(
        any(form in held for form in (word.name, MATERIALS.get(word.raw, word.name), inflection.verb(word.raw)))
        for word in words
        if word.kind in (Kind.NOUN, Kind.VERB) and not word.raw.startswith(QUOTED) and word.raw not in UNSTATED
    )

"""Reads the facts that prompts state, for the guard of reuse: by the world's grammar, else by tagged words."""

from functools import lru_cache

from agents.classifier.tagger import PromptTagger
from agents.reuse import world_facts
from agents.reuse.phrases import PhraseReader
from agents.reuse.relating import Relater
from agents.reuse.words import Kind, literal, read_words
from planner.reuse.facts import PromptFacts
from planner.reuse.guard import Comparison, compare

REMEMBERED = 4096  # prompts whose facts are kept


class FactReader:
    """Reads prompts of any language of words; what it does not understand is a doubt, never an error.

    Not for use by several threads, as its tagger is not.
    """

    def __init__(self, tagger: PromptTagger | None = None, *, knows_world: bool = True) -> None:
        """`knows_world`: whether the models draw the tiny world, where a ball is a circle; for others words count."""
        self._tagger = tagger or PromptTagger()
        self._knows_world = knows_world
        self._remembered = lru_cache(REMEMBERED)(self._read_words)

    def pair(self, one: str, other: str) -> tuple[PromptFacts, PromptFacts]:
        """Return the facts of two prompts, both read in one language: by the grammar only if it reads both."""
        if self._knows_world:
            captions = world_facts.find_caption(one), world_facts.find_caption(other)
            if captions[0] and captions[1]:
                return self._world(one, captions[0]), self._world(other, captions[1])
            if self._is_worldly(one) and self._is_worldly(other):
                return self._remembered(one, True), self._remembered(other, True)
        return self.words(one), self.words(other)

    def compare(self, one: str, other: str) -> Comparison:
        """Compare the facts of two prompts."""
        return compare(*self.pair(one, other))

    def words(self, prompt: str) -> PromptFacts:
        """Return the facts of a prompt by its words, whether the grammar reads it or not."""
        return self._remembered(prompt, False)

    def _is_worldly(self, prompt: str) -> bool:
        """Whether a prompt names things of the world alone, so that the world's synonyms hold, if not its grammar."""
        nouns = [word.raw for word in read_words(prompt, self._tagger).words if word.kind is Kind.NOUN]
        return bool(nouns) and all(map(world_facts.is_shape, nouns))

    def _read_words(self, prompt: str, is_worldly: bool) -> PromptFacts:
        synonyms = world_facts.vocabulary() if is_worldly else {}
        read = read_words(prompt, self._tagger, synonyms)
        phrases = PhraseReader(read.words, read.texts)
        elements = phrases.read()
        relater = Relater(elements, read.doubts | phrases.doubts)
        return relater.facts(literal(prompt), read.texts, read.styles)

    def _world(self, prompt: str, caption: world_facts.Embedded) -> PromptFacts:
        facts = world_facts.facts_of(caption.scene, caption.styles, literal(prompt))
        if not caption.rest:
            return facts
        rest = self.words(caption.rest)
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

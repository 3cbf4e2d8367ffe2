"""HADIS's eight rule features of a prompt, counted on part-of-speech tags.

Objects, modifiers and verbs are read off the tags, names are runs of proper nouns and what follows "by".

Rank correlation with the values HADIS published for 5,000 captions: length 1.00, rarity .98, attributes .93, verbs .77,
relations .60 (theirs count "of" and "with"), names .44, objects .38 (theirs are subjects and objects of verbs and
prepositions; ours are things to generate, "two cats" two), abstractness .01 (theirs follows function words, .83).
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from agents.classifier import lexicon
from agents.classifier.tagger import PromptTagger, Tagged, Tagger, Token, common_words
from planner.serving.hardness import PromptFeatures

MAX_CHARACTERS: Final = 400  # what is tagged; text encoders see 77 tokens, about 350 characters
WORD: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+(?:['\u2019][^\W_]+)*")  # each Han or kana sign counts
_NOUNS: Final = frozenset({"NN", "NNS", "NNP", "NNPS"})
_NAMES: Final = frozenset({"NNP", "NNPS"})
_ADJECTIVES: Final = frozenset({"JJ", "JJR", "JJS"})
_PARTICIPLES: Final = frozenset({"VBG", "VBN"})
_ACTIONS: Final = frozenset({"VB", "VBD", "VBG", "VBP", "VBZ"})


_END: Final = Token("", "", False)


class FeatureExtractor:
    """Counts the features of one prompt at a time.

    Beyond MAX_CHARACTERS a prompt only grows in length: 8 kB cost about what 400 characters do.
    """

    def __init__(self, tagger: Tagger | None = None) -> None:
        self._tagger = tagger or PromptTagger()

    def extract(self, prompt: str) -> PromptFeatures:
        """The features of any text: empty, foreign, with NULs or broken surrogates."""
        tagged = self._tagger.tags(prompt[:MAX_CHARACTERS])
        words = [token.word for token in tagged if token.word.isalpha()]
        modifiers, actions = _modifiers_and_actions(tagged)
        objects, names = _objects_and_names(tagged)
        return PromptFeatures(
            prompt_length=sum(1 for _ in WORD.finditer(prompt)),
            token_rarity=sum(_is_rare(word) for word in words),
            num_objects=objects,
            abstractness=sum(_is_abstract(word) for word in words),
            attribute_density=modifiers,
            spatial_relations=_relations(tagged),
            action_verbs=actions,
            named_entities=names,
        )


def _is_abstract(word: str) -> bool:
    if word in lexicon.CONCRETE:
        return False
    singular = word.removesuffix("s") if not word.endswith("ss") else word
    return word in lexicon.ABSTRACT or (len(singular) > 6 and singular.endswith(lexicon.ABSTRACT_SUFFIXES))


def _is_rare(word: str) -> bool:
    return word.isalpha() and word not in common_words()


def _noun_runs(tagged: Tagged) -> Iterator[tuple[int, int]]:
    """[start, end) of each unbroken run of nouns; its last word is what the run is ("superhero outfit")."""
    start = None
    for i, (word, tag, _) in enumerate([*tagged, _END]):
        is_noun = tag in _NOUNS and len(word) > 1 and word not in lexicon.PLACE and word not in lexicon.NUMBERS
        if is_noun and start is None:
            start = i
        elif not is_noun and start is not None:
            yield start, i
            start = None


def _objects_and_names(tagged: Tagged) -> tuple[int, int]:
    objects = names = 0
    is_artist = False
    for start, end in _noun_runs(tagged):
        run = tagged[start:end]
        if all(token.word in lexicon.MEDIUM for token in run):
            continue
        before = tagged[start - 1].word if start else ""
        has_name = any(_is_name(token) for token in run)
        is_artist = before == "by" or (is_artist and has_name and before in ("and", "&", ","))
        names += has_name or (is_artist and len(run) > 1)
        if not is_artist and run[-1].word not in lexicon.MEDIUM:  # an artist's name is not a thing in the image
            objects += _number_before(tagged, start)
    return objects, names


def _is_name(token: Token) -> bool:
    """Whether the tagger says so, with a capital or a rare word: else "rose" in "a rose box" would be a name."""
    return token.tag in _NAMES and token.word not in lexicon.MEDIUM and (token.is_capital or _is_rare(token.word))


def _number_before(tagged: Tagged, start: int) -> int:
    """2 for "two [red] stars": the number word before the modifiers of the noun at `start`, else 1."""
    i = start - 1
    while i >= 0 and tagged[i].tag in _ADJECTIVES | _PARTICIPLES and tagged[i].word not in lexicon.NUMBERS:
        i -= 1
    return lexicon.NUMBERS.get(tagged[i].word, 1) if i >= 0 else 1


def _modifiers_and_actions(tagged: Tagged) -> tuple[int, int]:
    modifiers = actions = 0
    for (word, tag, _), following in pairwise([*tagged, _END]):
        if word in lexicon.PLACE or word in lexicon.STATIVE or word in lexicon.MEDIUM:
            continue
        is_before_noun = following.tag in _NOUNS | _ADJECTIVES
        if tag in _ADJECTIVES or tag == "VBN" or (is_before_noun and (tag == "VBG" or word in lexicon.COLOURS)):
            modifiers += 1
        elif tag in _ACTIONS:
            actions += 1
    return modifiers, actions


def _relations(tagged: Tagged) -> int:
    """Relations in space; a phrase such as "in front of" is one, and so is a corner without a preposition."""
    words = [token.word for token in tagged]
    relations = i = 0
    while i < len(words):
        phrase = next((p for p in lexicon.SPATIAL_PHRASES if tuple(words[i : i + len(p)]) == p), ())
        if phrase:
            relations += 1
        elif words[i] in lexicon.SPATIAL:
            place = next((word for word in words[i + 1 : i + 3] if word not in ("a", "an", "the")), None)
            relations += place is not None and place not in lexicon.NOT_PLACES
        i += max(1, len(phrase))
    return relations

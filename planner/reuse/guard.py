"""Whether the image of one prompt may be where another begins: only as far as both state equal facts.

The cosine of two prompts hardly moves when two becomes three, red blue, or with without. The guard compares what they
state, and says which share of the steps that allows. Which share is a plan's or a profile's to say, not this module's.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from planner.reuse.facts import PromptFacts, Thing
from planner.reuse.terms import Difference as Difference
from planner.reuse.terms import GuardShares as GuardShares
from planner.reuse.terms import InvalidShares as InvalidShares


class Verdict(StrEnum):
    """How the facts of two prompts compare."""

    EQUAL = "equal"
    STYLE = "style"  # equal but for how the image is made
    DIFFERS = "differs"
    UNSURE = "unsure"  # one of them was not understood, and nothing else shows that they differ


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the facts of two prompts compare, and in what they differ."""

    verdict: Verdict
    differences: frozenset[Difference] = frozenset()
    doubts: frozenset[str] = frozenset()  # of both readers


def allowed_share(shares: GuardShares, comparison: Comparison) -> float:
    """Return the share of the steps that a comparison allows."""
    if comparison.verdict is Verdict.DIFFERS:
        allowed = [shares.differs.get(each, 0.0) for each in comparison.differences]
        return min(*allowed, shares.unsure if comparison.doubts else allowed[0])
    return {Verdict.EQUAL: shares.equal, Verdict.STYLE: shares.style, Verdict.UNSURE: shares.unsure}[comparison.verdict]


def compare(one: PromptFacts, other: PromptFacts) -> Comparison:
    """Compare two prompts read in the same language; order never matters.

    Raises:
        ValueError: they were read in different languages.
    """
    if one.language != other.language:
        raise ValueError(f"facts compare within one language: got {one.language!r} and {other.language!r}")
    if one.words == other.words:
        return Comparison(Verdict.EQUAL)
    if one.core and one.core == other.core:  # whatever either was taken to mean, it is the same
        return _by_style(one, other)
    doubts = one.doubts | other.doubts
    differences = _differences(one, other)
    if differences:
        return Comparison(Verdict.DIFFERS, differences, doubts)
    if doubts:
        return Comparison(Verdict.UNSURE, frozenset(), doubts)
    return _by_style(one, other)


def _by_style(one: PromptFacts, other: PromptFacts) -> Comparison:
    if one.styles != other.styles:
        return Comparison(Verdict.STYLE, frozenset({Difference.STYLE}))
    return Comparison(Verdict.EQUAL)


_OF_THINGS: Final[Mapping[Difference, Callable[[Thing], Hashable]]] = {
    Difference.COLOUR: lambda thing: thing.colours,
    Difference.SIZE: lambda thing: thing.sizes,
    Difference.ATTRIBUTE: lambda thing: thing.traits,
    Difference.NEGATION: lambda thing: thing.lacks,
}


def _differences(one: PromptFacts, other: PromptFacts) -> frozenset[Difference]:
    """Return the kinds in which two prompts differ; every difference is of one kind at least."""
    found = set[Difference]()
    if one.signatures() != other.signatures():
        found |= _of_things(one, other)
    if one.absent != other.absent:
        found.add(Difference.NEGATION)
    if one.background != other.background:
        found.add(Difference.BACKGROUND)
    if Counter(one.texts) != Counter(other.texts):
        found.add(Difference.TEXT)
    return frozenset(found)


def _of_things(one: PromptFacts, other: PromptFacts) -> set[Difference]:
    """Name the kinds; what is told apart by nothing but who has what is a binding or a relation."""
    found = set[Difference]()
    own, others = (frozenset(thing.noun for thing in each.things) for each in (one, other))
    if own != others:
        found.add(Difference.OBJECT)
    if _counts(one, own & others) != _counts(other, own & others):
        found.add(Difference.COUNT)
    for kind, of in _OF_THINGS.items():
        if _words(one, of) != _words(other, of):
            found.add(kind)
    if found:
        return found
    if Counter(map(_without_place, one.things)) != Counter(map(_without_place, other.things)):
        return {Difference.BINDING}
    return {Difference.RELATION}


def _counts(facts: PromptFacts, nouns: frozenset[str]) -> Counter[tuple[str, str]]:
    return Counter((thing.noun, thing.count) for thing in facts.things if thing.noun in nouns)


def _words(facts: PromptFacts, of: Callable[[Thing], Hashable]) -> frozenset[Hashable]:
    return frozenset(map(of, facts.things))


def _without_place(thing: Thing) -> Hashable:
    return thing.noun, thing.count, thing.colours, thing.sizes, thing.traits, thing.lacks

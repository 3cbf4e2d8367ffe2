"""The guard: only equal facts pass, whatever their order, and shares come from the plan alone."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.reuse.facts import PromptFacts, Relation, Thing
from planner.reuse.guard import Comparison, Difference, GuardShares, InvalidShares, Verdict, allowed_share, compare

CAT, DOG, MAT = Thing(noun="cat"), Thing(noun="dog"), Thing(noun="mat")
RED_CAT = replace(CAT, colours=frozenset({"red"}))
WORDS = st.sampled_from(["cat", "dog", "mat"])
THINGS = st.lists(
    st.builds(Thing, noun=WORDS, count=st.sampled_from("12"), colours=st.frozensets(st.sampled_from(["red", "blue"]))),
    min_size=1,
    max_size=4,
)


def facts(*things: Thing, **changes: Any) -> PromptFacts:
    return PromptFacts(**({"language": "words", "words": repr((things, changes)), "things": things} | changes))


@given(THINGS, st.data())
def test_the_order_of_things_carries_no_meaning(things: list[Thing], data: st.DataObject) -> None:
    pairs = st.tuples(*[st.integers(0, len(things) - 1)] * 2)
    relations = [Relation(a, "on", b) for a, b in data.draw(st.lists(pairs, max_size=3))]
    order = data.draw(st.permutations(range(len(things))))
    moved = [things[old] for old in order]
    new = {old: at for at, old in enumerate(order)}
    turned = tuple(Relation(new[each.subject], each.name, new[each.object]) for each in relations)
    one = facts(*things, relations=tuple(relations))
    assert compare(one, replace(facts(*moved, relations=turned), words="other")) == Comparison(Verdict.EQUAL)


@given(THINGS, THINGS)
def test_other_things_never_pass(one: list[Thing], other: list[Thing]) -> None:
    found = compare(facts(*one), replace(facts(*other), words="other"))
    assert (found.verdict is Verdict.EQUAL) == (Counter(one) == Counter(other))


@pytest.mark.parametrize(
    ("one", "other", "kinds"),
    [
        (facts(CAT), facts(replace(CAT, count="2")), {Difference.COUNT}),
        (facts(CAT), facts(CAT, CAT), {Difference.COUNT}),
        (facts(CAT), facts(DOG), {Difference.OBJECT}),
        (facts(CAT), facts(RED_CAT), {Difference.COLOUR}),
        (facts(CAT), facts(replace(CAT, sizes=frozenset({"small"}))), {Difference.SIZE}),
        (facts(CAT), facts(replace(CAT, traits=frozenset({"run"}))), {Difference.ATTRIBUTE}),
        (facts(CAT), facts(replace(CAT, lacks=frozenset({"tail"}))), {Difference.NEGATION}),
        (facts(CAT), facts(CAT, absent=frozenset({"dog"})), {Difference.NEGATION}),
        (facts(CAT), facts(CAT, background=frozenset({"night"})), {Difference.BACKGROUND}),
        (facts(CAT, texts=("a",)), facts(CAT, texts=("b",)), {Difference.TEXT}),
        (facts(RED_CAT, DOG), facts(CAT, replace(DOG, colours=frozenset({"red"}))), {Difference.BINDING}),
        (
            facts(CAT, DOG, relations=(Relation(0, "chase", 1),)),
            facts(CAT, DOG, relations=(Relation(1, "chase", 0),)),
            {Difference.RELATION},
        ),
    ],
)
def test_a_difference_is_named_by_its_kind(one: PromptFacts, other: PromptFacts, kinds: set[Difference]) -> None:
    assert compare(one, other) == Comparison(Verdict.DIFFERS, frozenset(kinds))


def test_two_equal_things_are_told_apart_by_what_they_do() -> None:
    hat, ball = Thing(noun="hat"), Thing(noun="ball")
    both = facts(CAT, CAT, hat, ball, relations=(Relation(0, "wear", 2), Relation(0, "hold", 3)))
    each = facts(CAT, CAT, hat, ball, relations=(Relation(0, "wear", 2), Relation(1, "hold", 3)))
    assert compare(both, each).verdict is Verdict.DIFFERS


def test_style_alone_is_told_from_facts() -> None:
    other = facts(CAT, styles=frozenset({"oil"}))
    assert compare(facts(CAT), other) == Comparison(Verdict.STYLE, frozenset({Difference.STYLE}))


def test_what_was_not_understood_is_unsure_unless_it_differs_anyway_or_is_word_for_word_the_same() -> None:
    doubtful = facts(CAT, doubts=frozenset({"script"}))
    assert compare(facts(CAT), doubtful).verdict is Verdict.UNSURE
    assert compare(facts(DOG), doubtful).verdict is Verdict.DIFFERS
    assert compare(doubtful, doubtful).verdict is Verdict.EQUAL


def test_equal_words_are_equal_whatever_either_was_taken_to_mean() -> None:
    one = facts(CAT, core="cat on mat", doubts=frozenset({"order"}))
    assert compare(one, facts(DOG, core="cat on mat")).verdict is Verdict.EQUAL
    assert compare(one, facts(DOG, core="cat on mat", styles=frozenset({"oil"}))).verdict is Verdict.STYLE
    assert compare(one, facts(DOG, core="dog on mat")).verdict is Verdict.DIFFERS
    assert compare(facts(CAT), facts(DOG)).verdict is Verdict.DIFFERS, "no words are not equal words"


def test_facts_of_two_languages_do_not_compare() -> None:
    with pytest.raises(ValueError, match="language"):
        compare(facts(CAT), facts(CAT, language="world"))


def test_shares_are_the_plans_and_of_several_differences_the_least_counts() -> None:
    shares = GuardShares(equal=0.5, style=0.4, unsure=0.1, differs={Difference.STYLE: 0.4, Difference.COUNT: 0.2})
    assert allowed_share(shares, Comparison(Verdict.EQUAL)) == 0.5
    assert allowed_share(shares, Comparison(Verdict.STYLE, frozenset({Difference.STYLE}))) == 0.4
    assert allowed_share(shares, Comparison(Verdict.UNSURE)) == 0.1
    count = frozenset({Difference.COUNT})
    assert allowed_share(shares, Comparison(Verdict.DIFFERS, count)) == 0.2
    assert allowed_share(shares, Comparison(Verdict.DIFFERS, count | {Difference.COLOUR})) == 0.0
    assert allowed_share(shares, Comparison(Verdict.DIFFERS, count, frozenset({"script"}))) == 0.1


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InvalidShares):
        GuardShares(equal=share)

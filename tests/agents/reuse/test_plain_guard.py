"""The plain guard: two prompts pass where they have the same words in the same order, but for how the image is made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.lab.reuse_bench.pairs import ADVERSARIAL, DIFFERENT, PASSES, REGRESSIONS, SAME, is_sealed, read_pairs
from agents.reuse.plain_guard import compare
from planner.reuse.guard import Verdict
from planner.reuse.terms import Difference


@pytest.mark.parametrize(
    "other",
    [
        "Two red hearts, above the box!",
        "2 red hearts above box",
        "(two red hearts) above the box.",
        "two red\nhearts above\u00a0the box",
    ],
)
def test_capitals_punctuation_digits_and_the_are_no_facts(other: str) -> None:
    assert compare("two red hearts above the box", other).verdict is Verdict.EQUAL


@pytest.mark.parametrize(
    "other",
    [
        "a photo of a red heart",
        "an oil painting of a red heart",
        "a red heart, highly detailed",
        "masterpiece, a red heart, digital art, 8k",
        "a red heart. trending on artstation",
    ],
)
def test_how_the_image_is_made_is_style(other: str) -> None:
    found = compare("a red heart", other)
    assert (found.verdict, found.differences) == (Verdict.STYLE, {Difference.STYLE})


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("two red hearts", "three red hearts", Difference.COUNT),
        ("a red heart", "a blue heart", Difference.COLOUR),
        ("a small heart", "a huge heart", Difference.SIZE),
        ("a heart with a key", "a heart without a key", Difference.NEGATION),
        ("a heart above a key", "a heart below a key", Difference.RELATION),
        ("a fox", "a crow", Difference.OBJECT),
        ("a red cube left of a blue ball", "a blue cube left of a red ball", Difference.BINDING),
        ("a fox chases a crow", "a crow chases a fox", Difference.BINDING),
    ],
)
def test_one_fact_that_differs_does_not_pass_and_its_kind_is_named(one: str, other: str, kind: Difference) -> None:
    found = compare(one, other)
    assert (found.verdict, kind in found.differences) == (Verdict.DIFFERS, True)
    assert compare(other, one) == found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a cat", "cats"),
        ("a black and white cat", "a black and a white cat"),
        ("digital art", "watercolor"),  # nothing but style: then it is what the prompt says
        ("a cat \U0001f431", "a cat \U0001f436"),
        ("(cat:1.3), dog", "(cat:-1.3), dog"),
        ("a table, a painting, a lamp", "a table, a lamp"),
        ("a watch, digital", "a watch"),
        ("a painting of a painting of a cat", "a painting of a cat"),
        ('a sign with the words "love, masterpiece, hate"', 'a sign with the words "love, hate"'),
        ("a sign that says 'love, masterpiece, hate'", "a sign that says 'love, hate'"),
        ("\u732b\u3068\u72ac", "\u72ac\u3068\u732b"),
        ("!!", "??"),
    ],
)
def test_what_may_be_another_image_does_not_pass(one: str, other: str) -> None:
    assert compare(one, other).verdict is Verdict.DIFFERS


@given(st.text(), st.text())
def test_no_text_is_an_error_and_every_text_equals_itself(one: str, other: str) -> None:
    compare(one, other)
    assert compare(one, one).verdict is Verdict.EQUAL


@pytest.mark.parametrize("name", [ADVERSARIAL, DIFFERENT, REGRESSIONS])
def test_no_labelled_pair_that_differs_passes(name: str) -> None:
    assert [pair for pair in read_pairs(name) if compare(pair.first, pair.second).verdict in PASSES] == []


def test_paraphrases_pass_as_often_as_its_readme_says() -> None:
    """Those with other words, or with the same in another order, are refused."""
    sealed = [pair for pair in read_pairs(SAME) if is_sealed(pair)]
    passed = [pair for pair in sealed if compare(pair.first, pair.second).verdict in PASSES]
    assert (len(passed), len(sealed)) == (41, 160)

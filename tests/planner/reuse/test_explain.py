"""Every reason has words."""

from planner.reuse.eligibility import Refusal
from planner.reuse.explain import MISSES, REFUSALS, meaning
from planner.reuse.neighbour import Miss


def test_every_reason_and_refusal_has_words() -> None:
    assert MISSES.keys() == set(Miss)
    assert REFUSALS.keys() == set(Refusal)
    assert all(each and not each.endswith(".") for each in (*MISSES.values(), *REFUSALS.values()))


def test_a_reason_with_its_refusal_is_one_sentence_and_a_newer_ones_word_stays() -> None:
    assert meaning("ineligible/seed") == "the request does not allow it: it states a seed, and not reuse: own"
    assert meaning("floor").startswith("no stored image was similar enough")
    assert [meaning(word) for word in ("tomorrow", "ineligible/tomorrow")] == ["tomorrow", "ineligible/tomorrow"]


def test_a_neighbour_of_somebody_else_is_explained_as_none() -> None:
    assert MISSES[Miss.TENANT] == MISSES[Miss.NONE]

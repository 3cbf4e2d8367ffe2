"""The hand-written pairs that ship, and the share of them that passes a guard."""

import pytest

from agents.lab.reuse_bench.pairs import ADVERSARIAL, PARAPHRASES, Pair, passing, read_pairs
from planner.reuse.guard import Comparison, Difference, Verdict

DIFFERS = Comparison(Verdict.DIFFERS, frozenset({Difference.COUNT}))


@pytest.mark.parametrize("name", [ADVERSARIAL, PARAPHRASES])
def test_at_least_a_hundred_pairs_ship_and_none_is_there_twice(name: str) -> None:
    pairs = read_pairs(name)
    assert len(pairs) >= 100
    assert len({(pair.first, pair.second) for pair in pairs}) == len(pairs)
    assert all(pair.first != pair.second for pair in pairs)


def test_no_pair_is_both_a_paraphrase_and_adversarial() -> None:
    known = {frozenset(pair[1:]) for pair in read_pairs(ADVERSARIAL)}
    assert not known & {frozenset(pair[1:]) for pair in read_pairs(PARAPHRASES)}


def test_adversarial_pairs_change_numbers_colours_negation_sides_and_who_has_what() -> None:
    kinds = {pair.kind for pair in read_pairs(ADVERSARIAL)}
    assert {"number", "colour", "negation", "relation", "binding"} <= kinds


def test_equal_facts_pass_with_or_without_another_style_and_nothing_else_does() -> None:
    verdicts = {
        "a": Comparison(Verdict.EQUAL), "b": Comparison(Verdict.STYLE), "c": DIFFERS,
        "d": Comparison(Verdict.UNSURE),
    }  # fmt: skip
    pairs = [Pair("x" if name in "ab" else "y", name, name) for name in verdicts]
    found = passing(pairs, lambda one, _other: verdicts[one])
    assert found == {"share": 0.5, "pairs": 4, "by_kind": {"x": 1.0, "y": 0.0}}


def test_of_no_pairs_no_share_is_told() -> None:
    assert passing([], lambda _one, _other: DIFFERS)["share"] is None

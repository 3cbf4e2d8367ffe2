"""The comparison of guards: what a lookup finds, which of it a guard lets hit, and what is printed."""

import numpy as np
import pytest

from agents.lab.reuse_bench.guards import FLOORS, equal_text, hits, let_through, nearest, show
from agents.lab.reuse_bench.pairs import Pair
from planner.reuse.guard import Comparison, Difference, Verdict

DIFFERS = Comparison(Verdict.DIFFERS, frozenset({Difference.OBJECT}))


def by_first_letter(one: str, other: str) -> Comparison:
    return Comparison(Verdict.STYLE) if one[0] == other[0] else DIFFERS


def test_a_search_finds_the_nearest_earlier_ones_the_latest_first() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0], [1, 0], [1, 0]], float)
    assert nearest("abcde", vectors) == [[], [0], [0, 1], [2, 0, 1], [3, 2, 0]]


def test_a_lookup_hits_where_one_of_those_found_passes_from_its_similarity_on() -> None:
    prompts = ["a cat", "b", "a", "b", "c"]
    vectors = np.array([[1, 0], [0.8, 0.6], [0.8, 0.6], [0.8, 0.6], [0, 1]], float)
    found = hits(prompts, vectors, nearest(prompts, vectors), by_first_letter)
    assert {floor: held.tolist() for floor, held in found.items()} == {
        FLOORS[0]: [False, False, True, True, False],
        FLOORS[1]: [False, False, False, True, False],
        FLOORS[2]: [False, False, False, True, False],
    }


def test_shares_are_printed_with_intervals_and_differences_from_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [Pair("x", "ab", "ac"), Pair("x", "ab", "bc")]
    show("pairs", {"one": let_through(pairs, by_first_letter), "none": let_through(pairs, equal_text)})
    first, second = capsys.readouterr().out.splitlines()
    assert "n     2 one              1 50.00 % [" in first
    assert "less the first: -50.00 % [" in second

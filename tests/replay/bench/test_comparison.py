"""Ahead, even, behind and undecided, by one rule for both sides."""

from collections.abc import Callable

import numpy as np
import pytest

from replay.bench.comparison import AHEAD, BEHIND, EVEN, UNDECIDED, in_words, margin_of, paired, verdicts

PAIRS = 10  # redraws of a cell
DICE = np.random.default_rng(11)
DRAWS: dict[str, tuple[Callable[[tuple[int, int]], np.ndarray], float]] = {
    "normal": (lambda size: DICE.normal(size=size), 0.0),
    "peaked": (lambda size: DICE.laplace(size=size), 0.0),
    "heavy tails": (lambda size: DICE.standard_t(3, size=size), 0.0),
    "skewed": (lambda size: DICE.gamma(4, size=size), 4.0),
    "more skewed": (lambda size: DICE.gamma(2, size=size), 2.0),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_the_interval_covers_the_mean_of_simulated_draws_in_at_least_93_of_100_cases(kind: str) -> None:
    draw, mean = DRAWS[kind]
    found = [paired(row, [0.0] * PAIRS) for row in draw((2000, PAIRS)).tolist()]
    assert np.mean([each.low <= mean <= each.high for each in found]) >= 0.93


def test_chance_alone_seldom_decides_any_of_a_tables_comparisons() -> None:
    wrong = 0
    for _ in range(300):
        table = [paired(row, [0.0] * PAIRS) for row in DICE.normal(size=(20, PAIRS)).tolist()]
        wrong += any(verdict in (AHEAD, BEHIND) for verdict in verdicts(table, 0.01))
    assert wrong / 300 < 0.06


@pytest.mark.parametrize("mean", [0.0, 0.01, 0.04, 0.06, 0.5])
@pytest.mark.parametrize("spread", [0.001, 0.03, 1.0])
def test_the_rule_is_symmetric(mean: float, spread: float) -> None:
    ours = (mean + spread * np.random.default_rng(3).normal(size=PAIRS)).tolist()
    zeros = [0.0] * PAIRS
    [one], [other] = verdicts([paired(ours, zeros)], 0.05), verdicts([paired(zeros, ours)], 0.05)
    assert other == {AHEAD: BEHIND, BEHIND: AHEAD}.get(one, one)


def test_a_sure_difference_that_does_not_matter_is_even_on_either_side() -> None:
    for mean in (0.01, -0.01):
        values = [mean + 1e-4 * at for at in range(PAIRS)]
        assert verdicts([paired(values, [0.0] * PAIRS)], 0.05) == [EVEN]


def test_an_interval_beyond_the_margin_and_around_0_is_undecided() -> None:
    values = [0.5 * (-1) ** at for at in range(PAIRS)]
    assert verdicts([paired(values, [0.0] * PAIRS)], 0.05) == [UNDECIDED]
    assert verdicts([paired([3.0], [0.0])], 0.05) == [UNDECIDED], "one pair tells nothing"


def test_more_comparisons_ask_for_more_of_each() -> None:
    just = [0.1 + 0.1 * (-1) ** at for at in range(PAIRS)]
    unclear = [1.0 * (-1) ** at for at in range(PAIRS)]
    differences = [paired(just, [0.0] * PAIRS), *([paired(unclear, [0.0] * PAIRS)] * 40)]
    assert verdicts(differences[:1], 0.05) == [AHEAD]
    assert verdicts(differences, 0.05)[0] == UNDECIDED


def test_equal_sides_are_even_and_a_constant_lead_is_ahead() -> None:
    assert verdicts([paired([1.0, 2.0], [1.0, 2.0]), paired([2.0, 3.0], [1.0, 2.0])], [0.05, 0.05]) == [EVEN, AHEAD]


def test_differences_are_written_with_their_interval() -> None:
    assert in_words(paired([2.0, 3.0], [1.0, 2.0])) == "+1.00 [+1.00, +1.00]"
    assert in_words(paired([2.0], [1.5])) == "+0.50"
    assert (margin_of("fid"), margin_of("facts")) == (0.05, 0.003)

"""ODA in masses: what it must keep, what it must equal, and what its printed form does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from planner.solvers.levels.oda import aligned
from planner.solvers.levels.pasm import costs, is_convex

Floats = NDArray[np.float64]


def least(h: Floats, f: Floats, cost: Floats) -> float:
    """Eq. 2's optimum by scipy's HiGHS."""
    n = len(h)
    rows, columns = np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))
    return float(linprog(cost.ravel(), A_eq=np.vstack([rows, columns[1:]]), b_eq=np.concatenate([h, f[1:]])).fun)


def a_histogram(dice: np.random.Generator, n: int) -> Floats:
    """Shares of n; about a third of them are nothing."""
    shares = dice.random(n) * (dice.random(n) < 0.7)
    shares[dice.integers(n)] += 0.1
    return np.asarray(shares / shares.sum())


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_classes_keep_their_mass_and_levels_get_what_they_can_carry(n: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    h, f = a_histogram(dice, n), a_histogram(dice, n)
    m = aligned(h, f)
    assert (m >= -1e-12).all()
    np.testing.assert_allclose(m.sum(axis=1), h, atol=1e-9)
    np.testing.assert_allclose(m.sum(axis=0), f, atol=1e-9)


def test_oda_costs_what_the_exact_program_does_on_convex_degradation() -> None:
    dice = np.random.default_rng(1)
    for _ in range(120):
        n = int(dice.integers(2, 9))
        h, f = a_histogram(dice, n), a_histogram(dice, n)
        place = np.cumsum(dice.random(n))
        power = dice.uniform(1, 3)  # from linear on
        cost = np.maximum(0, place[None, :] - place[:, None]) ** power
        assert is_convex(cost)
        assert float((aligned(h, f) * cost).sum()) == pytest.approx(least(h, f, cost), abs=1e-7)


def test_oda_can_be_worse_where_degradation_is_concave() -> None:
    dice, worse = np.random.default_rng(2), 0
    for _ in range(60):
        h, f = a_histogram(dice, 5), a_histogram(dice, 5)
        gap = np.maximum(0, np.arange(5)[None, :] - np.arange(5)[:, None])
        cost = np.sqrt(gap)
        assert not is_convex(cost)
        by_oda, exact = float((aligned(h, f) * cost).sum()), least(h, f, cost)
        assert by_oda >= exact - 1e-9
        worse += by_oda > exact + 1e-6
    assert worse >= 6  # facts/mission-table.md A10 found 41 of 120


def test_the_example_that_breaks_the_printed_algorithm_comes_out_whole() -> None:
    """H = (.2, .6, .2), F = (.3, .3, .4): as printed class 2 sums to 1.25 and class 3 has no entry (A.1)."""
    h, f = np.array([0.2, 0.6, 0.2]), np.array([0.3, 0.3, 0.4])
    np.testing.assert_allclose(aligned(h, f) / h[:, None], [[1, 0, 0], [1 / 6, 1 / 2, 1 / 3], [0, 0, 1]], atol=1e-12)
    pulled, stays_then, pushed = 0.2 / 0.6, 0.4 / 0.6, (0.4 - 0.3) / 0.4  # lines 11, 14 and 4
    assert pulled + stays_then + pushed == pytest.approx(1.25)


def test_mass_that_moves_on_moves_in_proportion_as_the_composition_of_steps_has_it() -> None:
    """Too much on both faster levels: P(v1 given v3) = P(v1 given v2) P(v2 given v3)."""
    h, f = np.array([0.0, 0.5, 0.5]), np.array([0.5, 0.3, 0.2])
    rows = aligned(h, f)[1:] / h[1:, None]
    step_3_2, step_2_1 = 0.3 / 0.5, 0.5 / 0.8
    assert rows[1, 0] == pytest.approx(step_2_1 * step_3_2)
    assert rows[0, 0] == pytest.approx(step_2_1)


@pytest.mark.parametrize("seed", range(20))
def test_no_prompt_is_degraded_that_need_not_be(seed: int) -> None:
    """Mass on levels faster than its class is at least what lacks on the slower side, and no more."""
    dice = np.random.default_rng(seed)
    h, f = a_histogram(dice, 6), a_histogram(dice, 6)
    degraded = np.triu(aligned(h, f), 1).sum()
    cost = np.triu(np.ones((6, 6)), 1)
    assert degraded >= least(h, f, cost) - 1e-9
    if all(np.cumsum(f) >= np.cumsum(h) - 1e-12):  # slower levels have room for every prompt
        assert degraded == pytest.approx(0, abs=1e-9)


def test_costs_count_only_moves_to_faster_levels() -> None:
    loss = {"a": {"b": 0.1, "c": 0.3}, "c": {"a": 0.5}}
    np.testing.assert_allclose(costs(["a", "b", "c"], loss), [[0, 0.1, 0.3], [0, 0, 0], [0, 0, 0]])

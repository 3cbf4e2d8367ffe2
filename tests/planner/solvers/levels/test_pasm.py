"""The shift map: rows, and which of the two methods makes them."""

import numpy as np
import pulp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.solvers.levels.oda import aligned
from planner.solvers.levels.pasm import costs, is_convex, shift_map
from planner.solvers.levels.transport import cheapest
from tests.planner.solvers.levels.test_oda import a_histogram, least

LEVELS = ("slow", "middle", "quick", "quickest")
CONVEX = {v: {w: (j - i) ** 2 for j, w in enumerate(LEVELS) if j > i} for i, v in enumerate(LEVELS)}
CONCAVE = {v: {w: (j - i) ** 0.5 for j, w in enumerate(LEVELS) if j > i} for i, v in enumerate(LEVELS)}
WANTED = {"slow": 0.5, "middle": 0.5}
SHARES = {"quick": 0.5, "quickest": 0.5}


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_rows_sum_to_one_and_meet_the_shares(seed: int) -> None:
    dice = np.random.default_rng(seed)
    h, f = (dict(zip(LEVELS, map(float, a_histogram(dice, 4)), strict=True)) for _ in range(2))
    served = {level: share for level, share in f.items() if share > 0}
    pasm = shift_map(LEVELS, h, served, CONVEX)
    assert pasm.how == "ODA"
    for row in pasm.rows.values():
        assert sum(row.values()) == pytest.approx(1, abs=1e-9)
        assert row.keys() <= served.keys()
    for level in LEVELS:
        got = sum(h[c] * row.get(level, 0) for c, row in pasm.rows.items())
        assert got == pytest.approx(f[level], abs=1e-9)


def test_where_degradation_is_not_convex_the_exact_program_takes_over_and_is_better() -> None:
    assert not is_convex(costs(LEVELS, CONCAVE))
    pasm = shift_map(LEVELS, WANTED, SHARES, CONCAVE)
    by_oda = shift_map(LEVELS, WANTED, SHARES, CONVEX)
    assert pasm.how == "transport LP"
    assert pasm.rows == {"slow": {"quickest": 1.0}, "middle": {"quick": 1.0}}
    assert by_oda.rows == {"slow": {"quick": 1.0}, "middle": {"quickest": 1.0}}
    assert pasm.degradation == pytest.approx(0.5 * 3**0.5 + 0.5)
    assert pasm.degradation < 0.5 * 2**0.5 + 0.5 * 2**0.5


def test_a_solver_that_fails_leaves_oda_s_map_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulp, "COIN_CMD", lambda **_: 1 / 0)
    pasm = shift_map(LEVELS, WANTED, SHARES, CONCAVE)
    assert pasm.rows == shift_map(LEVELS, WANTED, SHARES, CONVEX).rows
    assert pasm.how == "ODA, as the solver failed (ZeroDivisionError: division by zero)"


def test_a_class_nobody_is_of_goes_where_all_prompts_go() -> None:
    pasm = shift_map(LEVELS, {"slow": 1.0, "quick": 0.0}, {"slow": 0.4, "middle": 0.6}, CONVEX)
    assert pasm.rows["quick"] == {"slow": 0.4, "middle": 0.6}


def test_the_transport_program_finds_the_least_cost_for_any_cost() -> None:
    dice = np.random.default_rng(5)
    for _ in range(20):
        n = int(dice.integers(2, 7))
        h, f, cost = a_histogram(dice, n), a_histogram(dice, n), np.triu(dice.random((n, n)), 1)
        masses, trouble = cheapest(h, f, cost)
        assert not trouble
        assert masses is not None
        np.testing.assert_allclose(masses.sum(axis=1), h, atol=1e-6)
        np.testing.assert_allclose(masses.sum(axis=0), f, atol=1e-6)
        assert float((masses * cost).sum()) == pytest.approx(least(h, f, cost), abs=1e-6)
        assert float((aligned(h, f) * cost).sum()) >= least(h, f, cost) - 1e-9


def test_oda_s_optimality_is_claimed_only_where_it_holds() -> None:
    """Whenever a random cost counts as convex, ODA finds the least of it."""
    dice, convex = np.random.default_rng(6), 0
    for _ in range(150):
        h, f, cost = a_histogram(dice, 3), a_histogram(dice, 3), np.triu(dice.random((3, 3)), 1)
        if is_convex(cost):
            convex += 1
            assert float((aligned(h, f) * cost).sum()) == pytest.approx(least(h, f, cost), abs=1e-7)
    assert convex > 15

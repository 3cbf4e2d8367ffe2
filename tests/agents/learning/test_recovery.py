"""AUC, ROC, quality against heavy share, and recovery."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agents.learning import recovery as ranking
from agents.learning.calibration import auc

SHARES = np.linspace(0, 1, 11)
QUALITIES = st.sampled_from([k / 4 for k in range(5)])


def some_qualities(count: int = 400, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 5, count) / 4, np.maximum(rng.integers(2, 5, count) / 4, 0.5)


def three_of(count: int) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    scores = arrays(float, count, elements=st.integers(0, 4).map(float))
    return st.tuples(scores, arrays(float, count, elements=QUALITIES), arrays(float, count, elements=QUALITIES))


def test_a_perfect_ranker_recovers_all_over_all_shares() -> None:
    light, heavy = some_qualities()
    assert ranking.overall_recovery(light - heavy, light, heavy) == pytest.approx(1)


def test_random_scores_recover_about_nothing() -> None:
    light, heavy = some_qualities()
    drawn = [
        ranking.overall_recovery(np.random.default_rng(seed).random(len(light)), light, heavy) for seed in range(200)
    ]
    assert abs(np.mean(drawn)) < 0.02


def test_scores_that_are_all_tied_recover_exactly_nothing() -> None:
    light, heavy = some_qualities()
    assert ranking.overall_recovery(np.zeros(len(light)), light, heavy) == pytest.approx(0, abs=1e-12)


def test_an_inverted_ranker_loses_against_random() -> None:
    light, heavy = some_qualities()
    assert ranking.overall_recovery(heavy - light, light, heavy) < -0.5


def test_recovery_is_undefined_where_heavy_adds_nothing() -> None:
    light, _ = some_qualities()
    assert math.isnan(ranking.overall_recovery(np.arange(len(light)), light, light))


def test_the_lowest_scores_are_escalated_first() -> None:
    scores = np.array([0.9, 0.1, 0.5, 0.7])
    light, heavy = np.zeros(4), np.array([0.0, 1.0, 0.5, 0.0])
    got = ranking.quality_at(scores, light, heavy, np.array([0, 0.25, 0.5, 1]))
    assert got == pytest.approx([0, 0.25, 0.375, 0.375])


@given(three_of(7))
def test_a_curve_is_the_mean_over_the_orders_of_tied_scores(
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    scores, light, heavy = drawn
    cuts = np.arange(8)
    curve = ranking.quality_at(scores, light, heavy, cuts / 7)
    rng = np.random.default_rng(5)
    total = np.zeros(8)
    for _ in range(200):
        order = np.lexsort((rng.random(7), scores))
        total += [(heavy[order[:cut]].sum() + light[order[cut:]].sum()) / 7 for cut in cuts]
    assert curve == pytest.approx(total / 200, abs=0.11)


@given(three_of(9))
def test_no_ranker_beats_the_oracle_and_all_meet_at_both_ends(
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    scores, light, heavy = drawn
    curve = ranking.quality_at(scores, light, heavy, SHARES)
    assert (curve <= ranking.oracle_quality_at(light, heavy, SHARES) + 1e-12).all()
    assert curve[[0, -1]] == pytest.approx([light.mean(), heavy.mean()])


@given(arrays(float, 12, elements=st.integers(0, 5).map(float)), arrays(bool, 12))
def test_auc_is_the_share_of_pairs_in_the_right_order_with_ties_for_half(scores: np.ndarray, right: np.ndarray) -> None:
    pairs = [1.0 if good > bad else 0.5 if good == bad else 0.0 for good in scores[right] for bad in scores[~right]]
    got = auc(scores, right)
    assert math.isnan(got) if not pairs else got == pytest.approx(np.mean(pairs))


def test_the_interval_tells_what_is_better_than_random_from_what_is_not() -> None:
    light, heavy = some_qualities(600)
    dice = np.random.default_rng(3)
    knowing = light - heavy + dice.normal(0, 0.5, len(light))
    found, blind = (ranking.recovery(each, light, heavy, 1, 200) for each in (knowing, dice.random(len(light))))
    assert 0 < found.low < found.value < found.high < 1
    assert found.value == ranking.overall_recovery(knowing, light, heavy)
    assert blind.low < 0 < blind.high
    assert found == ranking.recovery(knowing, light, heavy, 1, 200)


def test_where_all_prompts_gain_alike_there_is_nothing_to_recover() -> None:
    assert math.isnan(ranking.recovery(np.arange(9.0), np.zeros(9), np.ones(9), 1).value)

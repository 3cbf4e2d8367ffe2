"""Whether confidences mean what they say."""

import numpy as np
import pytest

from agents.learning import calibration


def test_honest_confidences_have_almost_no_error_and_boastful_ones_have() -> None:
    rng = np.random.default_rng(31)
    honest = rng.random(20_000)
    right = rng.random(20_000) < honest
    assert calibration.expected_error(honest, right) < 0.02
    assert calibration.expected_error(np.sqrt(honest), right) > 0.1


def test_bins_hold_every_image_once_and_the_ends_too() -> None:
    bins = calibration.reliability(np.array([0.0, 0.05, 0.95, 1.0]), np.array([False, False, True, True]))
    assert [(b.count, b.right) for b in bins] == [(2, 0), (2, 1)]
    assert bins[1].confidence == pytest.approx(0.975)


def test_brier_is_the_mean_squared_distance_from_the_truth() -> None:
    assert calibration.brier(np.array([1.0, 0.5, 0.0]), np.array([True, True, True])) == pytest.approx(1.25 / 3)


def test_calibration_finds_how_sure_the_scores_really_are() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(0, 2, 20_000)
    right = rng.random(20_000) < 1 / (1 + np.exp(-(0.5 * scores - 1)))
    scale, shift = calibration.calibrate(scores, right)
    assert scale == pytest.approx(0.5, abs=0.03)
    assert shift == pytest.approx(-1, abs=0.05)


def test_scores_of_any_range_are_calibrated_alike() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(0, 2, 2000)
    right = rng.random(2000) < 1 / (1 + np.exp(-scores))
    plain = calibration.confidence(scores, *calibration.calibrate(scores, right))
    cosines = scores / 1000 + 0.2
    assert calibration.confidence(cosines, *calibration.calibrate(cosines, right)) == pytest.approx(plain, abs=1e-6)


def test_scores_without_a_mistake_get_a_finite_scale() -> None:
    scores = np.linspace(-1, 1, 40)
    scale, shift = calibration.calibrate(scores, scores > 0)
    assert np.isfinite([scale, shift]).all()
    assert 0.9 < calibration.confidence(scores, scale, shift)[-1] < 1


def test_a_higher_score_never_becomes_a_lower_confidence() -> None:
    rng = np.random.default_rng(2)
    scores = rng.normal(0, 1, 4000)
    right = rng.random(4000) < 1 / (1 + np.exp(scores - 1))
    scale, shift = calibration.calibrate(scores, right)
    assert scale == calibration.MIN_SCALE
    assert calibration.confidence(scores, scale, shift).mean() == pytest.approx(right.mean(), abs=0.01)


def test_a_deferral_curve_rises_strictly_even_where_scores_tie() -> None:
    curve = calibration.deferral(np.array([0.2] * 50 + [0.4, 0.6, 0.8] * 10))
    assert [p["threshold"] for p in curve] == [0.2, 0.4, 0.6, 0.8]
    assert [p["deferred"] for p in curve] == [0, 0.625, 0.75, 0.875]


def test_figures_of_confidences_that_are_always_right() -> None:
    right = np.arange(40) % 2 == 0
    assert calibration.figures(right.astype(float), right) == {
        "n": 40, "right": 0.5, "mean_confidence": 0.5, "auc": 1.0, "brier": 0.0, "expected_error": 0.0,
    }  # fmt: skip

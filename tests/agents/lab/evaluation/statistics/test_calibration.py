"""Whether confidences mean what they say."""

import numpy as np
import pytest

from agents.lab.evaluation.statistics import calibration


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


def test_cosines_are_no_probabilities() -> None:
    assert calibration.are_probabilities(np.array([0.0, 1.0]))
    assert not calibration.are_probabilities(np.array([-0.1, 0.5]))
    assert not calibration.are_probabilities(np.array([]))

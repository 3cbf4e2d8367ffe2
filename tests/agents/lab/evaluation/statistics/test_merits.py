"""Scores as curves, and whether they are probabilities."""

import numpy as np
import pytest

from agents.lab.evaluation.statistics.merits import are_probabilities, recovery_at, roc
from agents.learning.calibration import auc


def test_the_area_under_the_roc_is_the_auc() -> None:
    rng = np.random.default_rng(4)
    right = rng.random(300) < 0.6
    scores = np.round(right + rng.normal(0, 1, 300), 1)  # with ties
    caught, needless = roc(scores, right)
    assert np.trapezoid(caught, needless) == pytest.approx(auc(scores, right))


def test_cosines_are_no_probabilities() -> None:
    assert are_probabilities(np.array([0.0, 1.0]))
    assert not are_probabilities(np.array([-0.1, 0.5]))
    assert not are_probabilities(np.array([]))


def test_a_perfect_ranker_recovers_all_at_every_share() -> None:
    light, heavy = (np.random.default_rng(seed).random(200) for seed in (1, 2))
    for share in (0.1, 0.5, 0.9):
        assert recovery_at(light - heavy, light, heavy, share) == pytest.approx(1)

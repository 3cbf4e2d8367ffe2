"""Best choice, confusion and regret."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from agents.lab.evaluation.statistics import classes

COST = np.array([400.0, 10.0, 60.0])  # heavy, light, middle


def test_the_best_choice_is_the_fastest_level_within_nine_tenths_of_the_best() -> None:
    quality = np.array(
        [
            [1.0, 1.0, 1.0, 1.0, 0.5],
            [0.9, 0.89, 0.89, 1.0, 1.0],
            [0.5, 0.95, 0.89, 1.0, 0.1],
        ]
    )
    assert classes.best_choice(quality, COST).tolist() == [1, 2, 0, 1, 1]


def test_the_reference_is_the_best_level_for_the_prompt_and_not_the_dearest() -> None:
    assert classes.best_choice(np.array([[0.5], [0.6], [1.0]]), COST).tolist() == [2]


def test_where_every_level_fails_wholly_the_fastest_is_chosen() -> None:
    assert classes.best_choice(np.zeros((3, 2)), COST).tolist() == [1, 1]


def test_confusion_counts_best_choices_in_rows_and_predictions_in_columns() -> None:
    got = classes.confusion(np.array([0, 0, 2, 1]), np.array([0, 1, 1, 1]), 3)
    assert got.tolist() == [[1, 1, 0], [0, 1, 0], [0, 1, 0]]


@given(arrays(float, (3, 8), elements=st.floats(0, 1)))
def test_the_best_choice_has_no_regret(quality: np.ndarray) -> None:
    got = classes.regret(quality, COST, classes.best_choice(quality, COST))
    assert got.quality_lost == got.ms_wasted == 0


def test_always_light_loses_quality_and_always_heavy_wastes_time() -> None:
    quality = np.array([[1.0, 1.0], [1.0, 0.4], [1.0, 1.0]])
    light = classes.regret(quality, COST, np.array([1, 1]))
    assert (light.quality_lost, light.ms_wasted) == pytest.approx((0.3, 0))
    heavy = classes.regret(quality, COST, np.array([0, 0]))
    assert (heavy.quality_lost, heavy.ms_wasted) == pytest.approx((0, (390 + 340) / 2))
    assert (heavy.cost_ms, heavy.best_cost_ms) == pytest.approx((400, 35))

"""What few prompts show: differences with their errors, intervals of shares, fits that never fall."""

import math

import numpy as np
import pytest

from planner.catalog.evidence.estimates import difference_of, rising, rising_by, share_interval, shrunk
from planner.catalog.measured import Difference


def test_a_difference_is_shown_beyond_its_error_and_the_more_options_are_compared_the_more_it_must_be() -> None:
    difference = Difference(0.02, 0.01, 1000)
    assert difference.is_shown()
    assert not difference.is_shown(options=7)
    assert Difference(-0.03, 0.01, 1000).is_shown(options=7)
    assert not Difference(0.01, 0.01, 1000).is_shown()


def test_a_difference_has_the_standard_error_of_its_mean() -> None:
    values = np.array([1.0, 0.0, 0.0, -1.0, 1.0])
    found = difference_of(values)
    assert found == (pytest.approx(0.2), pytest.approx(values.std(ddof=1) / math.sqrt(5)), 5)
    assert found.interval == pytest.approx((0.2 - 1.96 * found.error, 0.2 + 1.96 * found.error), abs=1e-4)


@pytest.mark.parametrize("values", [[], [0.5]])
def test_one_prompt_shows_no_difference(values: list[float]) -> None:
    assert not difference_of(np.array(values)).is_shown()


def test_the_interval_of_a_share_is_wilsons() -> None:
    assert share_interval(0.9, 10) == pytest.approx((0.596, 0.982), abs=0.001)
    assert share_interval(1.0, 20) == pytest.approx((0.839, 1.0), abs=0.001)


def test_a_fit_that_never_falls_is_the_closest_one() -> None:
    values, weights = np.array([0.1, 0.5, 0.3, 0.9, 0.0]), np.array([1.0, 1.0, 3.0, 1.0, 1.0])
    fitted = rising(values, weights)
    assert (np.diff(fitted) >= 0).all()
    assert fitted == pytest.approx([0.1, 0.36, 0.36, 0.45, 0.45], abs=0.011)
    assert fitted @ weights == pytest.approx(values @ weights), "the mean stays"


def test_equal_scores_have_equal_values_and_the_order_of_the_prompts_stays() -> None:
    fitted = rising_by(np.array([0.9, 0.1, 0.9, 0.5]), np.array([1.0, 0.2, 0.0, 0.3]))
    assert fitted.tolist() == pytest.approx([0.5, 0.2, 0.5, 0.3])


def test_groups_that_scatter_no_more_than_chance_lets_them_count_as_none() -> None:
    assert shrunk([Difference(0.01, 0.01, 100), Difference(-0.01, 0.01, 100)]) == [0, 0]


def test_groups_that_differ_count_the_more_the_surer_they_are() -> None:
    sure, unsure, unknown = shrunk(
        [Difference(-0.1, 0.01, 900), Difference(-0.1, 0.1, 9), Difference(0.0, math.inf, 1)]
    )
    assert -0.1 < sure < unsure < -0.04
    assert unknown == 0
